"""What a run takes in memory follows its checkpoints, not its age."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from tenuto import Continue, NoReply, Workflow, loop, receive, wait_for_signal, workflow
from tenuto.testing import Engine


def add(total: int, by: int) -> NoReply[int]:
    return NoReply(total + by)


@workflow
async def entity() -> int:
    return (await receive(0, signals={"add": add}, checkpoint_every=10)).state


@workflow
async def looping() -> int:
    async def body(total: int) -> Continue[int]:
        return Continue(total + await wait_for_signal("add"))

    return await loop("add", 0, body, commit_interval=10)


@pytest.mark.slow
@pytest.mark.parametrize("lives_long", [entity, looping], ids=["receive", "loop"])
async def test_a_run_that_stays_in_memory_does_not_grow_with_its_messages(lives_long: Workflow[[], Any]) -> None:
    engine = Engine()
    run = await engine.start(lives_long)

    async def bytes_after(signals: int) -> int:
        for _ in range(signals):
            await run.signal("add", 1)
            await engine.settle()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = await bytes_after(600)  # until what is bounded has reached its bounds
        grown_bytes = await bytes_after(1_000) - before
    finally:
        tracemalloc.stop()
        engine.close()
    assert grown_bytes < 20_000  # of a thousand signals, each may leave next to nothing
