"""Words of other languages and likely later dialects, and what to write instead."""

from __future__ import annotations

from typing import Final

__all__ = ["DIALECT_HINTS"]

_VARIABLE: Final = "assign a variable in a handler, and wait with await signal"
_DEPLOYMENT: Final = "deployment belongs to the app's configuration"
_FAILURE: Final = "close failed … in a workflow, fail(…) in an activity"
_NOT_TWF: Final = "there is no such statement in TWF; leave it out"

DIALECT_HINTS: Final[dict[str, str]] = {
    "promise": "spawn workflow … -> p, later await p",
    "condition": _VARIABLE,
    "watch": _VARIABLE,
    "set": _VARIABLE,
    "unset": _VARIABLE,
    "state": _VARIABLE,
    "worker": _DEPLOYMENT,
    "namespace": _DEPLOYMENT,
    "parallel": "await all:",
    "select": "await one:",
    "hint": "leave it out",
    "raise": _FAILURE,
    "throw": _FAILURE,
    "try": _FAILURE,
    "catch": _FAILURE,
    "finally": _FAILURE,
    "assert": _FAILURE,
    "while": "for (…):",
    "elif": "nest an if in else:",
    "let": _NOT_TWF,
    "var": _NOT_TWF,
    "const": _NOT_TWF,
    "def": "activity Name(…):",
    "import": "all files given together are one program; nothing is imported",
    "pass": _NOT_TWF,
    "yield": _NOT_TWF,
}
