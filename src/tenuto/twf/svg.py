"""Drawings as one self-contained SVG, in light and dark.

Control flow is nested, so the layout is too: each part is a box with one line coming in at its top and at most one
going on at its bottom. Boxes are measured from the inside out and painted from the outside in; nothing is searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, assert_never

from .graph import Arm, Drawing, Fork, Loop, Shape, Step
from .svg_boxes import GAP, Box, Canvas, text_width
from .svg_style import STYLE

__all__ = ["drawings_svg"]

_PAD: Final = 18.0
_ARM_GAP: Final = 30.0
_DROP: Final = 40.0
_MERGE: Final = 24.0
_CAPTIONS: Final = {
    "activity": "ACTIVITY",
    "workflow": "WORKFLOW",
    "spawn": "SPAWN WORKFLOW",
    "detach": "DETACH WORKFLOW",
    "timer": "WAIT",
    "signal": "SIGNAL",
    "update": "UPDATE",
    "handle": "AWAIT HANDLE",
}


def drawings_svg(drawings: Sequence[Drawing]) -> str:
    """All drawings below each other."""
    boxes = [_panel(drawing) for drawing in drawings]
    width = max((box.width for box in boxes), default=200.0) + 2 * GAP
    height = sum(box.height + GAP for box in boxes) + GAP
    canvas = Canvas()
    y = GAP
    for box in boxes:
        box.paint(canvas, GAP, y)
        y += box.height + GAP
    label = escape(", ".join(drawing.title for drawing in drawings) or "no workflows")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{label}">\n<style>{STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0.6 7.4 4 0 7.4z"/></marker></defs>\n'
        f'<rect class="bg" width="100%" height="100%"/>\n{canvas.content()}\n</svg>\n'
    )


# --- whole drawings


def _panel(drawing: Drawing) -> Box:
    """A workflow with its handlers to the right."""
    flow = _with_ends(drawing)
    handlers = [_handler(handler) for handler in drawing.handlers]
    title_width = text_width(drawing.title, 16)
    side = max((box.width for box in handlers), default=0.0)
    left = max(flow.width, title_width if not handlers else 0.0)
    width = max(left + (GAP + side if handlers else 0), title_width) + 2 * _PAD
    stack = sum(box.height + 14 for box in handlers)
    height = 58 + max(flow.height, stack) + _PAD

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.area(x, y, width, height, "panel")
        canvas.text(x + _PAD, y + 30, drawing.title, "title")
        canvas.text(x + _PAD, y + 46, f"{drawing.path}:{drawing.line}", "place")
        flow.paint(canvas, x + _PAD + (left - flow.width) / 2, y + 58)
        below = y + 58
        for box in handlers:
            box.paint(canvas, x + _PAD + left + GAP, below)
            below += box.height + 14

    return Box(width, height, width / 2, False, paint)


def _handler(drawing: Drawing) -> Box:
    flow = _sequence(drawing.body)
    title = text_width(drawing.title, 13)
    width = max(flow.width, title + 8) + 2 * _PAD
    height = flow.height + 52 + (_PAD if drawing.body else 0)

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.area(x, y, width, height, "handler")
        canvas.open_card(drawing.kind, drawing.id, f"line {drawing.line}")
        canvas.rect(x + 12, y + 14, 4, 24, 2, "bar")
        canvas.text(x + 24, y + 22, drawing.kind.upper(), "caption")
        canvas.text(x + 24, y + 37, drawing.title.partition(" ")[2], "label")
        canvas.close_card()
        flow.paint(canvas, x + (width - flow.width) / 2, y + 52)

    return Box(width, height, width / 2, True, paint)


def _with_ends(drawing: Drawing) -> Box:
    parts = [_dot_box("start"), *(_shape(shape) for shape in drawing.body)]
    if all(part.falls for part in parts):
        parts.append(_dot_box("end"))
    return _stack(parts)


def _dot_box(word: str) -> Box:
    width = text_width(word, 11) + 30

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.open_card("end", word, word)
        canvas.rect(x, y, width, 24, 12, "face")
        canvas.text(x + width / 2, y + 16, word, "detail", middle=True)
        canvas.close_card()

    return Box(width, 24, width / 2, True, paint)


# --- one after the other


def _sequence(body: tuple[Shape, ...]) -> Box:
    return _stack([_shape(shape) for shape in body])


def _stack(parts: list[Box]) -> Box:
    reached: list[Box] = []
    for part in parts:
        reached.append(part)
        if not part.falls:
            break
    left = max((part.axis for part in reached), default=20.0)
    right = max((part.width - part.axis for part in reached), default=20.0)
    height = sum(part.height for part in reached) + GAP * max(0, len(reached) - 1)

    def paint(canvas: Canvas, x: float, y: float) -> None:
        for number, part in enumerate(reached):
            part.paint(canvas, x + left - part.axis, y)
            y += part.height
            if number + 1 < len(reached):
                canvas.line(x + left, y, y + GAP)
                y += GAP

    return Box(left + right, height, left, not reached or reached[-1].falls, paint)


def _shape(shape: Shape) -> Box:
    match shape:
        case Step():
            return _step(shape)
        case Loop():
            return _loop(shape)
        case Fork():
            return _choice(shape) if shape.kind in ("if", "switch") else _together(shape)
        case _:
            assert_never(shape)


# --- steps


def _step(step: Step) -> Box:
    if step.kind == "set":
        return _note(step)
    if step.leaves:
        return _exit(step)
    caption = _CAPTIONS[step.kind]
    inner = max(text_width(caption, 9) + len(caption) * 0.8, text_width(step.label, 13), text_width(step.detail, 11))
    width = max(132.0, inner + 36)
    height = 64.0 if step.detail else 46.0

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.open_card(step.kind, step.id, _tip(f"{step.id}, line {step.line}", step.full))
        canvas.rect(x, y, width, height, 9, "face")
        canvas.rect(x + 9, y + 10, 4, height - 20, 2, "bar")
        canvas.text(x + 22, y + 19, caption, "caption")
        canvas.text(x + 22, y + 35, step.label, "label")
        if step.detail:
            canvas.text(x + 22, y + 52, step.detail, "detail")
        canvas.close_card()

    return Box(width, height, width / 2, True, paint)


def _tip(place: str, full: str) -> str:
    """What pointing at a card shows: where it is, and its text where that had to be cut."""
    return f"{full}\n{place}" if full else place


def _note(step: Step) -> Box:
    lines = [step.label, *step.detail.split("\n")] if step.detail else [step.label]
    full = step.full if len(lines) > 5 or any("…" in line for line in lines) else ""
    if len(lines) > 5:
        lines = [*lines[:4], f"… {len(lines) - 4} more"]
    width = max(90.0, max(text_width(line, 11) for line in lines) + 26)
    height = 14.0 + 16 * len(lines)

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.open_card("set", step.id, _tip(f"line {step.line}", full))
        canvas.rect(x, y, width, height, 6, "face")
        for number, line in enumerate(lines):
            canvas.text(x + 13, y + 19 + 16 * number, line, "code")
        canvas.close_card()

    return Box(width, height, width / 2, True, paint)


def _exit(step: Step) -> Box:
    width = max(text_width(step.label, 13), text_width(step.detail, 11)) + 40
    height = 48.0 if step.detail else 32.0

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.open_card(f"end {step.kind}", step.id, _tip(f"line {step.line}", step.full))
        canvas.rect(x, y, width, height, height / 2, "face")
        canvas.text(x + width / 2, y + 21, step.label, "label", middle=True)
        if step.detail:
            canvas.text(x + width / 2, y + 37, step.detail, "detail", middle=True)
        canvas.close_card()

    return Box(width, height, width / 2, False, paint)


# --- side by side


def _row(arms: Sequence[Box]) -> tuple[list[float], float]:
    """Where each arm begins, and the width of all."""
    starts: list[float] = []
    x = 0.0
    for arm in arms:
        starts.append(x)
        x += arm.width + _ARM_GAP
    return starts, max(0.0, x - _ARM_GAP)


def _middle(starts: Sequence[float], arms: Sequence[Box]) -> float:
    """Where the line comes in: over the middle arm, or between the two in the middle."""
    axes = [start + arm.axis for start, arm in zip(starts, arms, strict=True)]
    half = len(axes) // 2
    return axes[half] if len(axes) % 2 else (axes[half - 1] + axes[half]) / 2


def _arm(arm: Arm) -> Box:
    parts = [_shape(shape) for shape in arm.body]
    if arm.step is not None:
        parts.insert(0, _step(arm.step))
    box = _stack(parts)
    room = text_width(arm.label, 11) * 2 + 24 if arm.label else 40.0
    extra = max(0.0, room - box.width) / 2

    def paint(canvas: Canvas, x: float, y: float) -> None:
        box.paint(canvas, x + extra, y)

    return Box(box.width + 2 * extra, box.height, box.axis + extra, box.falls, paint)


def _choice(fork: Fork) -> Box:
    arms = [_arm(arm) for arm in fork.arms]
    starts, row = _row(arms)
    head = max(90.0, text_width(fork.label, 13) + 52)
    middle = _middle(starts, arms)
    left = max(head / 2 - middle, 0.0)
    width = max(left + row, left + middle + head / 2)
    axis = left + middle
    inner = max(arm.height for arm in arms)
    falls = any(arm.falls for arm in arms)
    height = 34 + _DROP + inner + (_MERGE if falls else 0)

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.open_card(fork.kind, fork.id, _tip(f"line {fork.line}", fork.full))
        canvas.hexagon(x + axis - head / 2, y, head, 34)
        canvas.text(x + axis, y + 21, fork.label, "label", middle=True)
        canvas.close_card()
        top = y + 34 + _DROP
        for box, start, arm in zip(arms, starts, fork.arms, strict=True):
            at = x + left + start + box.axis
            canvas.elbow(x + axis, y + 34, at, top, y + 34 + 14, arrow=bool(box.height))
            canvas.text(at + 6, top - 9, arm.label, "word")
            box.paint(canvas, x + left + start, top)
            if box.falls:
                canvas.elbow(at, top + box.height, x + axis, y + height, y + height - 10, arrow=False)

    return Box(width, height, axis, falls, paint)


def _together(fork: Fork) -> Box:
    arms = [_arm(arm) for arm in fork.arms] or [_stack([])]
    starts, row = _row(arms)
    title = "ALL OF THESE" if fork.kind == "all" else "THE FIRST OF THESE"
    middle = _middle(starts, arms)
    half = (text_width(title, 9) + len(title) + 30) / 2
    offset = max(_PAD, half - middle)
    axis = offset + middle
    width = max(offset + row + _PAD, axis + half)
    inner = max(arm.height for arm in arms)
    falls = fork.kind == "all" or any(arm.falls for arm in arms)
    height = 26 + _DROP - 8 + inner + _MERGE + 8

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.area(x, y, width, height, fork.kind)
        canvas.open_card(fork.kind, fork.id, f"{fork.id}, line {fork.line}")
        canvas.text(x + axis, y + 19, title, "caption", middle=True)
        canvas.close_card()
        top = y + 26 + _DROP - 8
        for box, start in zip(arms, starts, strict=True):
            at = x + offset + start + box.axis
            canvas.elbow(x + axis, y + 26, at, top, y + 26 + 12, arrow=bool(box.height))
            box.paint(canvas, x + offset + start, top)
            if box.falls:
                canvas.elbow(at, top + box.height, x + axis, y + height, y + height - 14, arrow=False)

    return Box(width, height, axis, falls, paint)


def _loop(loop: Loop) -> Box:
    body = _sequence(loop.body)
    label = f"{loop.label}, side by side" if loop.parallel else f"↻ {loop.label}"
    head = text_width(label, 11) + 28
    margin = _PAD + 16
    left = max(body.axis, head / 2)
    right = max(body.width - body.axis, head / 2)
    width = left + right + 2 * margin
    height = _PAD - 4 + 26 + GAP + body.height + (GAP if body.falls and not loop.parallel else _PAD)
    axis = margin + left
    falls = loop.mode != "ever" or _breaks(loop.body)

    def paint(canvas: Canvas, x: float, y: float) -> None:
        canvas.area(x, y, width, height, "loop")
        top = y + _PAD - 4
        canvas.open_card("loop", loop.id, _tip(f"{loop.id}, line {loop.line}", loop.full))
        canvas.rect(x + axis - head / 2, top, head, 26, 13, "face")
        canvas.text(x + axis, top + 17, label, "code", middle=True)
        canvas.close_card()
        canvas.line(x + axis, top + 26, top + 26 + GAP, arrow=bool(loop.body))
        body.paint(canvas, x + axis - body.axis, top + 26 + GAP)
        if body.falls and not loop.parallel:
            bottom = top + 26 + GAP + body.height + 18
            canvas.back(x + axis, bottom, x + 15, top + 13, x + axis - head / 2)

    return Box(width, height, axis, falls, paint)


def _breaks(body: tuple[Shape, ...]) -> bool:
    """Whether a `break` of this loop, not of an inner one, is somewhere inside."""
    for shape in body:
        if isinstance(shape, Step) and shape.kind == "break":
            return True
        if isinstance(shape, Fork) and any(_breaks(arm.body) for arm in shape.arms):
            return True
    return False
