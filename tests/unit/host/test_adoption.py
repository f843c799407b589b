"""A worker takes up again what it has the lease of, when a commit failed or nobody knows what became of it."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from tenuto import Tenuto, step, workflow
from tenuto.errors import CommitUnknownError, StoreUnavailableError
from tenuto.host.engine import NativeEngine
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Commit, Park, Start, TurnResult
from tenuto.store.urls import store_of
from tenuto.system import REAL, Pace

calls: list[int] = []


@step
async def count(number: int) -> int:
    calls.append(number)
    return number


@workflow
async def three() -> int:
    return await count(1) + await count(2) + await count(3)


class Faulty:
    """Fails the commits it is told to: (number of the commit, what is raised, whether it was done all the same)."""

    def __init__(self, *faults: tuple[int, Exception, bool]) -> None:
        self.faults = {number: (error, done) for number, error, done in faults}
        self.seen = 0
        self._commit_group = MemoryStore.commit_group

    async def __call__(self, store: MemoryStore, commits: list[Commit]) -> list[TurnResult]:
        self.seen += 1
        error, done = self.faults.get(self.seen, (None, False))
        if error is None or done:
            results = await self._commit_group(store, commits)
            if error is None:
                return results
        raise error


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    hasty = replace(REAL, pace=Pace(poll=0.01, retry=0.01, orphans=0.01))
    monkeypatch.setattr("tenuto.app.engine_of", lambda url, *rest: NativeEngine(store_of(url), *rest[:2], system=hasty))


@pytest.mark.parametrize("done", [False, True], ids=["lost", "done"])
async def test_a_run_whose_commit_is_unknown_is_loaded_and_goes_on(monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    """R021: each turn is applied at most once, and no recorded step is repeated."""
    faulty = Faulty((3, CommitUnknownError("the connection was lost"), done))
    monkeypatch.setattr(MemoryStore, "commit_group", lambda self, commits: faulty(self, commits))
    async with Tenuto("memory://") as app:
        run = await app.start(three)
        assert await run.result(timeout="10s") == 6
    assert calls == ([1, 2, 3] if done else [1, 2, 2, 3])


async def test_a_run_goes_on_by_itself_when_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    down = StoreUnavailableError("down")
    faulty = Faulty((2, down, False), (3, down, False), (4, down, False))
    monkeypatch.setattr(MemoryStore, "commit_group", lambda self, commits: faulty(self, commits))
    async with Tenuto("memory://") as app:
        run = await app.start(three)
        assert await run.result(timeout="10s") == 6


@pytest.mark.parametrize("done", [False, True], ids=["lost", "done"])
async def test_a_start_whose_commit_is_unknown_is_made_certain(monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    """R063, and no second run."""
    faulty = Faulty((1, CommitUnknownError("the connection was lost"), done))
    monkeypatch.setattr(MemoryStore, "commit_group", lambda self, commits: faulty(self, commits))
    async with Tenuto("memory://") as app:
        run = await app.start(three, id="r")
        assert run.id == "r"
        assert await run.result(timeout="10s") == 6
    assert calls == [1, 2, 3]


async def test_a_run_that_nothing_can_commit_is_parked_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R023."""
    original: Any = MemoryStore.commit_group

    async def refuses_one(self: MemoryStore, commits: list[Commit]) -> list[TurnResult]:
        if any(c.lease.run_id == "bad" and not isinstance(c, Start | Park) for c in commits):
            raise ValueError("a limit of the store")
        return await original(self, commits)  # type: ignore[no-any-return]

    monkeypatch.setattr(MemoryStore, "commit_group", refuses_one)
    with caplog.at_level(logging.CRITICAL, "tenuto.host"):
        async with Tenuto("memory://") as app:
            bad = await app.start(three, id="bad")
            good = await app.start(three, id="good")
            assert await good.result(timeout="10s") == 6
            for _ in range(1_000):
                if await bad.status() == "parked":
                    break
                await app.start(three)  # time passes
            assert await bad.status() == "parked"


async def test_two_starts_with_one_id_at_once_are_one_run() -> None:
    """R062."""
    async with Tenuto("memory://") as app:
        runs = await asyncio.gather(*(app.start(three, id="same") for _ in range(20)))
        assert {run.id for run in runs} == {"same"}
        assert [await run.result(timeout="10s") for run in runs] == [6] * 20
    assert calls == [1, 2, 3]


asked: ContextVar[str] = ContextVar("asked", default="nobody")


@step
async def who_asked() -> str:
    return asked.get()


@workflow
async def asking() -> str:
    return await who_asked()


async def test_what_a_step_sees_does_not_depend_on_who_started_its_run() -> None:
    async with Tenuto("memory://") as app:
        asked.set("the caller")
        assert await (await app.start(asking)).result(timeout="10s") == "nobody"
