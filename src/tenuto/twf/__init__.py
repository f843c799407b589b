"""TWF, a small language for durable workflows: text in, tree, meaning and diagnostics out.

    program = load([Source("order.twf", text)])
    program.diagnostics, program.resolution, program.files

Everything below here is pure but `lsp`, which speaks to editors. `source` and `diagnostics` are shared by all; the way
of a text is `lexer`, `parser` (with `cursor`, `expressions`, `blocks`, `targets`, `statements`), `survey`, `scopes`,
`resolver`, `checks` (with `contexts`, `flow`, `options`), and `program` is that way as one call.
"""

from __future__ import annotations

from .diagnostics import Diagnostic
from .format import format_source
from .program import Program, decode, load
from .source import Source

__all__ = ["Diagnostic", "Program", "Source", "decode", "format_source", "load"]
