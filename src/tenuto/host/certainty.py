"""Calls whose commit may be lost on the way, or that find no store at all.

A connection can break between a commit and its answer. What a client sends with an id is sent again: the store has it
once however often it comes, so the second answer tells what became of the first (P1). Where that fails too, nobody
knows. What a worker owes a run it holds is repeated until it is done: nobody else would do it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenuto.errors import CommitUnknownError, EnvironmentFault

__all__ = ["again", "insist", "made_certain"]

T = TypeVar("T")

log = logging.getLogger("tenuto.host")


async def made_certain(call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives that may be made twice; `CommitUnknownError` if even then nobody knows."""
    try:
        return await call()
    except CommitUnknownError as unknown:
        return await again(unknown, call)


async def again(unknown: CommitUnknownError, call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives that is made once more, because nobody knows what became of the first."""
    try:
        return await call()
    except EnvironmentFault as error:
        raise CommitUnknownError(f"{unknown.args[0]}; asking again failed: {error}") from error


async def insist(what: str, call: Callable[[], Awaitable[T]], pause: float) -> T:
    """What a call gives that may be made again and again, once the store can be had. `pause`: seconds between tries."""
    while True:
        try:
            return await call()
        except EnvironmentFault as error:
            log.warning("%s: %s", what, error)
        await asyncio.sleep(pause)
