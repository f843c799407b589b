"""Boxes that know their size before they are painted, and the canvas they are painted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["GAP", "Box", "Canvas", "text_width"]

GAP: Final = 28.0
_ADVANCE: Final = 0.602  # of a monospaced letter, in parts of its size


def text_width(text: str, size: float) -> float:
    return len(text) * size * _ADVANCE


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A part of a picture: `axis` is where the line comes in at the top and, if it `falls`, goes on at the bottom."""

    width: float
    height: float
    axis: float
    falls: bool
    paint: Callable[[Canvas, float, float], None]


class Canvas:
    """Collects SVG elements: areas behind, lines in the middle, cards in front."""

    def __init__(self) -> None:
        self.areas: list[str] = []
        self.lines: list[str] = []
        self.cards: list[str] = []

    # --- areas and cards

    def area(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self.areas.append(
            f'<rect class="area {kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="14"/>'
        )

    def open_card(self, kind: str, location: str, tip: str) -> None:
        self.cards.append(f'<g class="node {kind}" data-location="{escape(location)}"><title>{escape(tip)}</title>')

    def close_card(self) -> None:
        self.cards.append("</g>")

    def rect(self, x: float, y: float, width: float, height: float, radius: float, kind: str) -> None:
        self.cards.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius:.1f}"/>'
        )

    def hexagon(self, x: float, y: float, width: float, height: float) -> None:
        tip = height / 2
        points = (
            (x, y + tip),
            (x + tip, y),
            (x + width - tip, y),
            (x + width, y + tip),
            (x + width - tip, y + height),
            (x + tip, y + height),
        )
        self.cards.append(f'<polygon class="face" points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}"/>')

    def text(self, x: float, y: float, text: str, kind: str, *, middle: bool = False) -> None:
        anchor = ' text-anchor="middle"' if middle else ""
        self.cards.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{anchor}>{escape(text)}</text>')

    # --- lines

    def line(self, x: float, top: float, bottom: float, *, arrow: bool = True) -> None:
        if bottom - top > 0.5:
            self._path(f"M{x:.1f} {top:.1f}V{bottom:.1f}", arrow=arrow)

    def elbow(self, x: float, top: float, to_x: float, bottom: float, turn: float, *, arrow: bool = True) -> None:
        """Down to `turn`, across, and down again, with rounded corners."""
        if abs(to_x - x) < 1:
            self.line(x, top, bottom, arrow=arrow)
            return
        radius = min(9.0, abs(to_x - x) / 2, abs(turn - top), abs(bottom - turn))
        side = radius if to_x > x else -radius
        self._path(
            f"M{x:.1f} {top:.1f}V{turn - radius:.1f}Q{x:.1f} {turn:.1f} {x + side:.1f} {turn:.1f}"
            f"H{to_x - side:.1f}Q{to_x:.1f} {turn:.1f} {to_x:.1f} {turn + radius:.1f}V{bottom:.1f}",
            arrow=arrow,
        )

    def back(self, x: float, bottom: float, left: float, to_y: float, to_x: float) -> None:
        """From the end of a loop's body along its left side back to its head."""
        radius = 9.0
        self._path(
            f"M{x:.1f} {bottom - radius * 2:.1f}V{bottom - radius:.1f}"
            f"Q{x:.1f} {bottom:.1f} {x - radius:.1f} {bottom:.1f}"
            f"H{left + radius:.1f}Q{left:.1f} {bottom:.1f} {left:.1f} {bottom - radius:.1f}"
            f"V{to_y + radius:.1f}Q{left:.1f} {to_y:.1f} {left + radius:.1f} {to_y:.1f}H{to_x:.1f}",
            arrow=True,
            kind="line again",
        )

    def _path(self, data: str, *, arrow: bool, kind: str = "line") -> None:
        marker = ' marker-end="url(#tip)"' if arrow else ""
        self.lines.append(f'<path class="{kind}" d="{data}"{marker}/>')

    def content(self) -> str:
        return "\n".join((*self.areas, *self.lines, *self.cards))
