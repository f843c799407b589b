"""TWF, a small language for durable workflows: text in, tree, meaning and diagnostics out.

    program = load([Source("order.twf", text)])
    program.diagnostics, program.resolution, program.files

Everything below here is pure but `lsp`, which speaks to editors, and `run`, which executes programs (`Bindings`,
`load_program`). `source` and `diagnostics` are shared by all; the way
of a text is `lexer`, `parser` (with `cursor`, `expressions`, `blocks`, `targets`, `statements`), `survey`, `scopes`,
`resolver`, `checks` (with `contexts`, `flow`, `options`), and `program` is that way as one call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .diagnostics import Diagnostic
    from .format import format_source
    from .program import Program, decode, load
    from .run import Bindings, load_program
    from .source import Source

__all__ = ["Bindings", "Diagnostic", "Program", "Source", "decode", "format_source", "load", "load_program"]

_HOMES: Final = {
    "Bindings": "run",
    "Diagnostic": "diagnostics",
    "Program": "program",
    "Source": "source",
    "decode": "program",
    "format_source": "format",
    "load": "program",
    "load_program": "run",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: every app has the provider, few have programs, and tools need only the language."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
