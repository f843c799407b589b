"""The style sheet of drawings: shapes once, colours for light and dark.

Colours are written out instead of held in CSS variables: viewers outside of browsers know no variables and would paint
everything black.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Final

__all__ = ["STYLE"]

_LIGHT: Final = {
    **{"bg": "#ffffff", "ink": "#1f2328", "soft": "#656d76", "edge": "#8c959f", "card": "#ffffff", "rim": "#d0d7de"},
    **{"all": "#eef4ff", "one": "#fff7e8", "loop": "#f6f8fa", "panel": "#fafbfc"},
    **{"blue": "#2563eb", "violet": "#7c3aed", "amber": "#b45309", "teal": "#0f766e"},
    **{"green": "#15803d", "red": "#b91c1c"},
}
_DARK: Final = {
    **{"bg": "#0d1117", "ink": "#e6edf3", "soft": "#8d96a0", "edge": "#6e7681", "card": "#161b22", "rim": "#30363d"},
    **{"all": "#111d33", "one": "#241c0c", "loop": "#12161d", "panel": "#11151b"},
    **{"blue": "#6ea8fe", "violet": "#b39dfa", "amber": "#e3a651", "teal": "#4fc3b5"},
    **{"green": "#56d364", "red": "#ff7b72"},
}
_HUES: Final = {
    "activity": "blue",
    **dict.fromkeys(("workflow", "spawn", "detach", "handle", "renew"), "violet"),
    "timer": "amber",
    **dict.fromkeys(("signal", "update", "query"), "teal"),
    **dict.fromkeys(("close", "return"), "green"),
    "fail": "red",
}
_SHAPES: Final = """
svg{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.area.loop{stroke-dasharray:5 4}.line{fill:none;stroke-width:1.6}.again{stroke-dasharray:4 3}
.face{stroke-width:1.2}.end .face{stroke-width:1.6}.set .face{stroke-dasharray:3 3}.node:hover .face{stroke-width:2}
.caption{font-size:9px;letter-spacing:.8px;font-weight:600}.label{font-size:13px;font-weight:600}
.detail,.code,.place,.word{font-size:11px}.title{font-size:16px;font-weight:700}
"""
_COLOURS: Final = Template(
    ".bg{fill:$bg}.area{stroke:$rim;fill:$panel}.area.all{fill:$all}.area.one{fill:$one}.area.loop{fill:$loop}\n"
    ".line{stroke:$edge}.tip,.bar{fill:$edge}.face{fill:$card;stroke:$rim}.end .face,.node:hover .face{stroke:$edge}\n"
    ".label,.code,.title{fill:$ink}.detail,.place,.word,.caption{fill:$soft}\n"
)
_HUE: Final = Template(
    ".$kind .bar,.$kind .caption,.$kind.end .label{fill:$hue}.$kind.end .face,.$kind.node:hover .face{stroke:$hue}\n"
)


def _colours(palette: Mapping[str, str]) -> str:
    hues = (_HUE.substitute(kind=kind, hue=palette[hue]) for kind, hue in _HUES.items())
    return _COLOURS.substitute(palette) + "".join(hues)


STYLE: Final = f"{_SHAPES}{_colours(_LIGHT)}@media (prefers-color-scheme:dark){{\n{_colours(_DARK)}}}\n"
