"""Closing coroutines in their own context, whatever their code does about it.

Rules:

1. Closed is what has no frame any more, however it came to that. What is awaited below a coroutine is looked at too:
   code that refuses may sit there, while what awaited it ends.
2. Code that refuses to close is kept for good and never stepped again. Letting it go would close it once more, in
   whatever context the garbage collector or the end of the interpreter runs in, where no call of ours would end its
   loop.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import Context
from typing import Any, Final

__all__ = ["close"]

_REFUSED: Final[list[object]] = []


def close(context: Context, coro: Any) -> bool:
    """Close a coroutine; False if it, or one that it awaits, refused."""
    chain = _chain(coro)
    with suppress(
        BaseException
    ):  # code being closed may raise anything, Evicted first of all; nobody is left to receive it
        context.run(coro.close)
    left = [part for part in chain if _frame(part) is not None]
    for part in left:
        _keep(part)
    return not left


def _chain(coro: Any) -> list[Any]:
    """A coroutine and what it awaits, as far as that is code."""
    chain: list[Any] = []
    while coro is not None and _frame(coro) is not None:
        chain.append(coro)
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return chain


def _frame(coro: Any) -> object:
    return getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)


def _keep(coro: Any) -> None:
    if any(kept is coro for kept in _REFUSED):
        return
    _REFUSED.append(coro)
    try:
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(coro))  # the list itself goes when the interpreter ends
    except (ImportError, AttributeError):
        return  # an interpreter without: the list has to do
