"""The machine of a world: everything a host takes from one, with nothing real in it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from tenuto.system import Pace, System
from tenuto.testing.world.world import World

__all__ = ["machine"]

T = TypeVar("T")


def machine(world: World, *, seed: int = 0) -> System:
    """Return a machine on which nothing recurs, whose randomness is that of a seed."""
    return System(
        _Clock(world),
        _Entropy(seed),
        Pace.quiet(),
        lambda name: _Lane(world),
        lambda: _Control(world),
        lambda: _Runner(world),
    )


class _Clock:
    """Both clocks of the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.seconds()

    def wall_ms(self) -> int:
        return self._world.now_ms

    def pause(self, seconds: float) -> None:
        """Let time pass: nothing else can happen meanwhile."""
        self._world.now_ms += math.ceil(seconds * 1000)


class _Entropy:
    """Bytes out of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # nothing is kept secret here

    def token(self, size: int, /) -> bytes:
        return self._random.randbytes(size)


class _Lane:
    """A line of callbacks of the world's loop."""

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._in_line = 0

    def put(self, work: Callable[[], object]) -> None:
        self._in_line += 1
        self._loop.call_soon(self._do, work)

    def _do(self, work: Callable[[], object]) -> None:
        work()
        self._in_line -= 1

    def may_inline(self) -> bool:
        return not self._in_line

    async def close(self) -> None:
        done = asyncio.Event()
        self.put(done.set)
        await done.wait()


class _Control:
    """A task of the same loop: nothing blocks it, since steps run elsewhere."""

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._task: asyncio.Task[None] | None = None

    def start(self, beat: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await beat()

        self._task = self._loop.create_task(run())

    def post(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def main_stack(self) -> str:
        return "(virtual)"

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


class _Runner:
    """Steps run on the caller's loop, or in its threads; the world waits for them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def sync(self, call: Callable[[], T]) -> Awaitable[T]:
        return self._world.outside.result(self._world.outer.run_in_executor(None, call))

    async def coroutine(self, body: Coroutine[Any, Any, T]) -> T:
        return await self._world.outside.result(self._world.outer.create_task(body, context=copy_context()))

    def close(self) -> None:
        """The threads are the caller's."""
