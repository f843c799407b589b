"""Starts that come together are begun together, and each hears of its own."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from tenuto.errors import StoreUnavailableError
from tenuto.host.runners import Runners
from tenuto.host.starts import TOGETHER, Start, Starts
from tenuto.kernel.turn import Definition, create
from tenuto.store.memory import MemoryStore
from tenuto.store.port import NewRun, TurnResult

FIRST = create(Definition("hash"), b"", 0)
COMMITTED = TurnResult("committed")


class CountingStore(MemoryStore):
    """Counts looks at the limits of queues; may be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.reachable = True

    async def limited(self) -> frozenset[str]:
        self.looks += 1
        if not self.reachable:
            raise StoreUnavailableError("not now")
        return await super().limited()


def _starts(store: CountingStore, begun: list[str]) -> Starts:
    def begin(start: Start, limited: frozenset[str]) -> None:
        if start.new.id == "bad":
            raise RuntimeError("a bug")
        begun.append(start.new.id)
        start.answered(COMMITTED)

    return Starts(store, Runners(copy_context()), begin)


def _new(run_id: str) -> NewRun:
    return NewRun(run_id, "t", ())


async def test_starts_of_one_pass_are_begun_in_order_with_one_look_at_the_limits() -> None:
    store, begun = CountingStore(), list[str]()
    starts = _starts(store, begun)
    asked = [starts.add(_new(f"r{number}"), FIRST) for number in range(5)]
    assert begun == []
    assert await asyncio.gather(*(start.stored for start in asked)) == [True] * 5
    assert begun == [f"r{number}" for number in range(5)]
    assert store.looks == 1


async def test_more_than_are_begun_in_one_go_are_begun_all_the_same() -> None:
    store, begun = CountingStore(), list[str]()
    starts = _starts(store, begun)
    asked = [starts.add(_new(f"r{number}"), FIRST) for number in range(2 * TOGETHER + 1)]
    await asyncio.gather(*(start.stored for start in asked))
    assert len(begun) == 2 * TOGETHER + 1
    assert store.looks == 3


async def test_a_start_that_fails_takes_no_other_with_it() -> None:
    begun = list[str]()
    starts = _starts(CountingStore(), begun)
    asked = [starts.add(_new(run_id), FIRST) for run_id in ("good", "bad", "better")]
    answers = await asyncio.gather(*(start.stored for start in asked), return_exceptions=True)
    assert [type(answer) for answer in answers] == [bool, RuntimeError, bool]
    assert begun == ["good", "better"]


async def test_starts_that_meet_a_store_out_of_reach_are_told_and_later_ones_go_on() -> None:
    store, begun = CountingStore(), list[str]()
    starts = _starts(store, begun)
    store.reachable = False
    asked = [starts.add(_new(run_id), FIRST) for run_id in ("r1", "r2")]
    for start in asked:
        with pytest.raises(StoreUnavailableError):
            await start.stored
    store.reachable = True
    assert await starts.add(_new("r3"), FIRST).stored
    assert begun == ["r3"]


async def test_a_start_nobody_waits_for_any_more_is_begun_all_the_same() -> None:
    begun = list[str]()
    starts = _starts(CountingStore(), begun)
    given_up = starts.add(_new("r1"), FIRST)
    given_up.stored.cancel()
    assert await starts.add(_new("r2"), FIRST).stored
    assert begun == ["r1", "r2"]
