"""What the portability cases share: a stage with an app on some engine, and steps that cases hold and watch.

Loaded by conftest as the module `tenuto_portable`, so that steps and workflows here have one home in every process.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tenuto import NoReply, Reply, RunHandle, Stop, Tenuto, step

LIMIT = "30s"
SHORT = "300ms"  # long enough for what must not happen to happen
TEMPORAL = ("temporal", "temporal-uncached")
_numbers = itertools.count()


@dataclass
class Stage:
    """An app on one engine, and the words in which cases say what they wait for."""

    app: Tenuto
    engine: str
    url: str
    tasks_may_fail: bool = False  # a case of code that does not fit its history
    started: list[str] = field(default_factory=list)

    @property
    def on_temporal(self) -> bool:
        return self.engine in TEMPORAL

    async def start(self, workflow: Any, *args: Any, **options: Any) -> RunHandle[Any]:
        run = await self.app.start(workflow, *args, **options)
        self.started.append(run.id)
        return run

    async def run(self, workflow: Any, *args: Any, **options: Any) -> Any:
        return await (await self.start(workflow, *args, **options)).result(timeout=LIMIT)

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        await self.app.wait_until(reached, LIMIT)

    async def until_published(self, run: RunHandle[Any], state: Any) -> None:
        async def reached() -> bool:
            return await run.query() == state

        await self.until(reached)

    async def until_waiting_for(self, run: RunHandle[Any], signal: str) -> None:
        async def reached() -> bool:
            return signal in (await run.explain()).signals

        await self.until(reached)

    async def until_accepting(self, run: RunHandle[Any], update: str) -> None:
        async def reached() -> bool:
            return update in (await run.explain()).updates

        await self.until(reached)

    async def until_is(self, run: RunHandle[Any], *statuses: str) -> None:
        async def reached() -> bool:
            return await run.status() in statuses

        await self.until(reached)

    def ask(self, run: RunHandle[Any], name: str, *args: Any, **options: Any) -> asyncio.Task[Any]:
        """An update under way."""
        return asyncio.create_task(run.update(name, *args, timeout=LIMIT, **options))


def fresh(word: str) -> str:
    """A name that no other case has."""
    return f"{word}-{next(_numbers)}"


# --- steps that cases hold


class Hold:
    """Where a held step has got to."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.asked_to_stop = asyncio.Event()

    async def until_entered(self) -> None:
        async with asyncio.timeout(30):
            await self.entered.wait()

    async def until_asked_to_stop(self) -> None:
        async with asyncio.timeout(30):
            await self.asked_to_stop.wait()


HOLDS: dict[str, Hold] = {}


def held(name: str) -> Hold:
    HOLDS[name] = Hold()
    return HOLDS[name]


@step
async def hold(name: str, value: Any = None) -> Any:
    """Goes on when the case opens its gate."""
    found = HOLDS[name]
    found.entered.set()
    try:
        await found.gate.wait()
    except asyncio.CancelledError:
        found.asked_to_stop.set()
        raise
    return value


# --- effects, in the order they happened

EFFECTS: defaultdict[str, list[Any]] = defaultdict(list)


@step
async def note(key: str, what: Any) -> Any:
    EFFECTS[key].append(what)
    return what


@step
def add_numbers(left: int, right: int) -> int:
    return left + right


# --- handlers


def stop(state: Any) -> Stop[Any]:
    return Stop(state)


def append(state: list[Any], item: Any) -> NoReply[list[Any]]:
    return NoReply([*state, item])


def add(state: list[Any], item: Any) -> Reply[list[Any]]:
    return Reply(len(state) + 1, [*state, item])
