"""TWF, a small language for durable workflows: text in, tree, meaning and diagnostics out.

    program = load([Source("order.twf", text)])
    program.diagnostics, program.resolution, program.files

Everything below here is pure but `lsp`, which speaks to editors, and `run`, which executes programs (`Bindings`,
`load_program`). `source` and `diagnostics` are shared by all; the way
of a text is `lexer`, `parser` (with `cursor`, `expressions`, `blocks`, `targets`, `statements`), `survey`, `scopes`,
`resolver`, `checks` (with `contexts`, `flow`, `options`), and `program` is that way as one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .diagnostics import Diagnostic
from .format import format_source
from .program import Program, decode, load
from .source import Source

if TYPE_CHECKING:
    from .run import Bindings, load_program

__all__ = ["Bindings", "Diagnostic", "Program", "Source", "decode", "format_source", "load", "load_program"]


def __getattr__(name: str) -> Any:
    """Running programs brings the engine along, so it is loaded when it is asked for: tools need only the language."""
    if name in ("Bindings", "load_program"):
        from . import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
