"""A run drawn with characters: its timeline, and its history as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tenuto.cli.faults import shown_error
from tenuto.cli.output import cut, duration, paint, safe, shown, width_of
from tenuto.host.history import HistoryEntry

__all__ = ["draw_timeline", "draw_tree"]

_FULL: Final = "█"
_OPEN: Final = "░"
_NAMES: Final = 28  # columns of the names at most
_SHADES: Final = {"completed": "green", "failed": "red", "cancelled": "yellow", "pending": "cyan"}


def draw_timeline(
    entries: Sequence[HistoryEntry], start: datetime, end: datetime, width: int, *, most: int = 40
) -> list[str]:
    """A bar for each entry, from when it was asked for until it settled; open ones reach to the end.

    Of a long history only the last entries are drawn.
    """
    began = sorted(entries, key=lambda entry: (entry.began or start, entry.seq == 0, entry.seq))
    drawn = began[-most:]
    if not drawn:
        return []
    names = min(_NAMES, max(width_of(safe(entry.location)) for entry in drawn))
    room = max(10, width - names - 18)
    first = start if len(drawn) == len(began) else drawn[0].began or start
    span = max(end - first, timedelta(milliseconds=1))
    lines = [f"{'':{names}}  {_scale(room, span)}"]
    if len(drawn) < len(began):
        lines.append(f"({len(began) - len(drawn)} entries before these)")
    for entry in drawn:
        name = cut(safe(entry.location), names)
        bar = paint(_bar(entry, first, end, span, room), _SHADES.get(entry.status))
        took = duration(((entry.ended or end) - (entry.began or first)).total_seconds())
        again = f" x{entry.attempts}" if entry.attempts > 1 else ""
        lines.append(f"{name}{' ' * (names - width_of(name))}  {bar}  {took}{again}")
    return lines


def _scale(room: int, span: timedelta) -> str:
    last = duration(span.total_seconds())
    return f"0{'─' * max(1, room - 1 - len(last))}{last}"


def _bar(entry: HistoryEntry, first: datetime, end: datetime, span: timedelta, room: int) -> str:
    from_ = _column(entry.began or first, first, span, room)
    to = _column(entry.ended or end, first, span, room)
    length = max(1, to - from_)
    from_ = min(from_, room - length)
    return " " * from_ + (_FULL if entry.ended else _OPEN) * length + " " * (room - from_ - length)


def _column(at: datetime, first: datetime, span: timedelta, room: int) -> int:
    return min(room, max(0, round((at - first) / span * room)))


@dataclass(slots=True)
class _Node:
    name: str
    entry: HistoryEntry | None = None
    below: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


def draw_tree(entries: Sequence[HistoryEntry], width: int) -> list[str]:
    """The history by place: what belongs to a branch, an iteration or a handler hangs below it."""
    root = _Node("")
    for entry in entries:
        node = root
        for part in entry.location.split("/"):
            node = node.below.setdefault(part, _Node(part))
        node.entry = entry
    rows = list(_walk(root, ""))
    names = max((width_of(name) for name, _ in rows), default=0)
    return [_line(name, names, entry, width) for name, entry in rows]


def _walk(node: _Node, indent: str) -> Iterator[tuple[str, HistoryEntry | None]]:
    last = len(node.below) - 1
    for index, child in enumerate(node.below.values()):
        branch, stem = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        yield f"{indent}{branch}{safe(child.name)}", child.entry
        yield from _walk(child, indent + stem)


def _line(name: str, names: int, entry: HistoryEntry | None, width: int) -> str:
    if entry is None:
        return name
    marks = [word for word, said in (("inserted", entry.inserted), ("supplied", entry.supplied)) if said]
    attempts = f" in {entry.attempts} attempts" if entry.attempts > 1 else ""
    if entry.rollback is not None:
        marks.append({"done": "undone", "failed": "undoing failed"}.get(entry.rollback.status, "being undone"))
    label = " ".join([f"{entry.status}{attempts}", *marks])
    fixed = f"{name}{' ' * (names - width_of(name))}  {safe(entry.kind):12} "
    value = _value(entry)
    room = max(10, width - width_of(fixed) - len(label) - 2)
    return (fixed + paint(label, entry.status) + (f"  {cut(value, room)}" if value else "")).rstrip()


def _value(entry: HistoryEntry) -> str:
    if entry.error is not None:
        return shown_error(entry.error)
    return "" if entry.value is None else shown(entry.value)
