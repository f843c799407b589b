"""Calls of clients whose commit may be lost on the way.

A connection can break between a commit and its answer. What carries an id is sent again: the store has it once however
often it comes, so the second answer tells what became of the first (P1). Where that fails too, nobody knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenuto.errors import CommitUnknownError, EnvironmentFault

__all__ = ["made_certain"]

T = TypeVar("T")


async def made_certain(call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives that may be made twice; `CommitUnknownError` if even then nobody knows."""
    try:
        return await call()
    except CommitUnknownError as unknown:
        try:
            return await call()
        except EnvironmentFault as error:
            raise CommitUnknownError(f"{unknown.args[0]}; asking again failed: {error}") from error
