"""Many randomised runs at once: all end as they should, none of their tasks fails, every history replays."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, add_numbers, append, note, stop

from tenuto import (
    Async,
    Reply,
    Task,
    parallel,
    publish_state,
    race,
    receive,
    side_effect,
    sleep,
    spawn,
    step,
    update_state,
    wait_for_signal,
    workflow,
)

RUNS = 25
# The SDK says so when a run without a cache leaves memory while it computes something in place.
pytestmark = pytest.mark.filterwarnings("ignore:Cannot find activity to cancel")


@step
async def takes_a_while(value: int, delay_ms: int) -> int:
    await asyncio.sleep(delay_ms / 1000)  # the work of this step
    return value


@workflow
async def leaf(number: int) -> int:
    return await takes_a_while(number, number % 7)


@workflow
async def mixture(seed: int) -> Any:
    """Its shape is drawn from its seed; its value is the seed's alone."""
    chance = random.Random(seed)
    total = 0
    for _ in range(chance.randint(2, 4)):
        match chance.randint(0, 6):
            case 0:
                numbers = [chance.randint(0, 9) for _ in range(3)]
                total += sum(await parallel([partial(takes_a_while, number, number) for number in numbers]))
            case 1:
                won = await race({"step": partial(takes_a_while, 5, 3), "never": partial(wait_for_signal, "never")})
                total += won.value
            case 2:
                await sleep(f"{chance.randint(0, 20)}ms")
                total += 1
            case 3:
                total += await (await spawn(leaf, chance.randint(0, 9)))
            case 4:
                total += await side_effect(partial(int, 7))
            case 5:
                handles = [Task.run(add_numbers, number, 1) for number in range(2)]
                total += sum(await Task.all(handles))
            case _:
                total += await step("named", partial(int, 3))

    async def slow(state: list[Any], item: Any) -> Reply[list[Any]]:
        await takes_a_while(item, chance.randint(0, 5))
        return Reply(len(state), [*state, item])

    def later(state: list[Any], item: Any) -> Async[list[Any]]:
        async def go_on() -> int:
            await takes_a_while(item, chance.randint(0, 5))
            return update_state(lambda state: (len(state), [*state, item]))

        return Async(go_on, state)

    publish_state("receiving")
    received = await receive([], updates={"slow": slow, "later": later}, signals={"append": append, "stop": stop})
    await note(f"mixture-{seed}", "last")
    return total, sorted(received.state)


async def _drive(stage: Stage, seed: int) -> tuple[Any, list[int]]:
    chance = random.Random(seed + 1000)
    run = await stage.start(mixture, seed)
    sent: list[int] = []
    asked: list[asyncio.Task[Any]] = []
    for number in range(chance.randint(2, 5)):
        # One of the two only: what a handler returns replaces what async functions changed meanwhile.
        kind = chance.choice(["append", "slow" if seed % 2 else "later"])
        if kind == "append":
            await run.signal("append", number)
        else:
            asked.append(stage.ask(run, kind, number, id=f"u{number}", retry_for=LIMIT))
            if chance.random() < 0.5:
                asked.append(stage.ask(run, kind, number, id=f"u{number}", retry_for=LIMIT))
        sent.append(number)
        await asyncio.sleep(chance.random() / 20)  # spread over time
    answers = await asyncio.gather(*asked)
    assert all(isinstance(answer, int) for answer in answers)
    await run.signal("stop")
    return await run.result(timeout="60s"), sorted(sent)


EXPECTED: dict[int, int] = {}


@pytest.mark.slow
async def test_many_randomised_runs_at_once_all_end_well(temporal_stage: Stage) -> None:
    """25 runs with a cache and without; that no task failed and all replays are clean is checked by the stage"""
    results = await asyncio.gather(*(_drive(temporal_stage, seed) for seed in range(RUNS)))
    for seed, ((total, state), sent) in enumerate(results):
        assert state == sent
        assert EXPECTED.setdefault(seed, total) == total
