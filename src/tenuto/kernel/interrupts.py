"""Telling an exception that user code raised from one that was put there.

A handler of a signal runs between two instructions of whatever the main thread is doing: what it raises comes out of
user code without being the code's. `KeyboardInterrupt` and `SystemExit` are all that such handlers raise in practice.
`GeneratorExit` comes from a coroutine that is closed while it waits.
"""

from __future__ import annotations

import signal
from opcode import opmap
from types import CodeType, TracebackType
from typing import Any, Final

__all__ = ["is_imposed"]

_RAISE: Final = opmap["RAISE_VARARGS"]


def is_imposed(error: BaseException) -> bool:
    """True if a signal of the process, or a closing, caused this exception, not the code that it came out of."""
    if isinstance(error, Exception) or not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return False
    handlers = _handlers()
    last: TracebackType | None = None
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        last, at = at, at.tb_next
    # Python's own handler of Ctrl-C has no frame, nor has a closing: then the innermost frame was doing something else.
    return not isinstance(error, SystemExit) and last is not None and not _raises(last)


def _raises(at: TracebackType) -> bool:
    return at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE


def _handlers() -> set[CodeType]:
    """The code of the handlers of signals that are written in Python."""
    codes: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # a partial, as asyncio's runner has
        code = getattr(handler, "__code__", None)
        if isinstance(code, CodeType):
            codes.add(code)
    return codes
