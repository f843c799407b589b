"""Runs that have something for their next turn take it together."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextvars import copy_context
from itertools import count

from tenuto.host.collector import CollectorHold
from tenuto.host.rounds import LARGE, Rounds


class Run:
    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.times: list[int | None] = []
        self.hooks: list[object] = []

    def take_usual_turn(self, now: int | None) -> None:
        self.times.append(now)
        self.hooks.append(sys.get_asyncgen_hooks().firstiter)


async def test_all_runs_of_a_round_take_their_turns_at_one_time() -> None:
    clock = count(1)
    rounds = Rounds(copy_context(), lambda: next(clock), CollectorHold())
    first, second = Run(rounds), Run(rounds)
    for run in (first, second, first):
        rounds.add(run)
    await asyncio.sleep(0)
    rounds.add(second)
    await asyncio.sleep(0)
    assert first.times == [1]
    assert second.times == [1, 2]


async def test_async_generators_of_workflow_code_are_kept_from_the_hosts_loop_for_the_round_only() -> None:
    before = sys.get_asyncgen_hooks()
    rounds = Rounds(copy_context(), lambda: 1, CollectorHold())
    run = Run(rounds)
    rounds.add(run)
    await asyncio.sleep(0)
    assert run.hooks != [before.firstiter]
    assert sys.get_asyncgen_hooks() == before


async def test_the_collector_waits_for_the_commits_of_a_large_round_but_not_for_long() -> None:
    hold = CollectorHold()
    rounds = Rounds(copy_context(), lambda: 1, hold)
    for _ in range(LARGE - 1):
        rounds.add(Run(rounds))
    await asyncio.sleep(0)
    assert gc.isenabled()
    for _ in range(LARGE):
        rounds.add(Run(rounds))
    await asyncio.sleep(0)
    assert not gc.isenabled()
    hold.end()  # as the committer does
    assert gc.isenabled()

    brief = CollectorHold(seconds=0)
    brief.begin()
    assert not gc.isenabled()
    async with asyncio.timeout(10):
        while not gc.isenabled():
            await asyncio.sleep(0)


async def test_a_collector_that_was_switched_off_stays_off() -> None:
    hold = CollectorHold()
    gc.disable()
    try:
        hold.begin()
        hold.end()
        assert not gc.isenabled()
    finally:
        gc.enable()
