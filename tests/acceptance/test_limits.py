"""How much of everything there may be: at the limit it works, one above it is refused or parked."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tenuto import ContinueAsNew, Limits, Task, Tenuto, join, parallel, race, sleep, step, wait_for_signal, workflow
from tenuto.errors import ConfigError, InvalidNameError, LimitError, RunFailedError, StepFailedError

LIMIT = "30s"
KIB = 1024


@step
async def nothing() -> None: ...


@step
async def filled(size: int) -> str:
    return "x" * size


@workflow
async def hands_on(text: str) -> int:
    return len(text)


@workflow
async def makes(size: int) -> int:
    return len(await filled(size))


@workflow
async def makes_two(size: int) -> int:
    await filled(size)
    await filled(size)
    await nothing()
    return size


@workflow
async def returns(size: int) -> str:
    return "x" * size


@workflow
async def waits() -> list[Any]:
    return [await wait_for_signal("go") for _ in range(1_000)]


@workflow
async def steps(count: int) -> int:
    for _ in range(count):
        await nothing()
    return count


@workflow
async def steps_for_ever(rounds: int) -> Any:
    for _ in range(5):
        await nothing()
    return "done" if rounds == 0 else ContinueAsNew(rounds - 1)


@workflow
async def spreads(construct: str, count: int) -> str:
    match construct:
        case "parallel":
            await parallel([nothing] * count)
        case "join":
            await join({f"b{n}": nothing for n in range(count)})
        case _:
            await race({f"b{n}": nothing for n in range(count)})
    return "spread"


@workflow
async def begins(count: int) -> str:
    waiting = [Task.delay("1h") for _ in range(count)]
    for handle in waiting:
        handle.cancel()
    await sleep(0)
    return "begun"


@workflow
async def begins_steps(count: int) -> str:
    await asyncio.gather(*(nothing() for _ in range(count)))
    return "begun"


def largest_text(limit: int) -> int:
    """The longest ASCII text whose encoding has that many bytes: three of them say how long it is."""
    return limit - 3


# --- values


async def test_a_value_may_be_as_large_as_the_limit_says_and_no_larger(url: str) -> None:
    async with Tenuto(url, limits=Limits(value_bytes=4 * KIB)) as app:
        fits = largest_text(4 * KIB)
        assert await (await app.start(makes, fits)).result(timeout=LIMIT) == fits
        assert len(await (await app.start(returns, fits)).result(timeout=LIMIT)) == fits
        failing = await app.start(makes, fits + 1)
        with pytest.raises(RunFailedError) as failed:
            await failing.result(timeout=LIMIT)
        assert isinstance(failed.value.__cause__, StepFailedError)
        assert failed.value.__cause__.kind == "encode"
        with pytest.raises(RunFailedError) as failed:
            await (await app.start(returns, fits + 1)).result(timeout=LIMIT)
        assert isinstance(failed.value.__cause__, LimitError)
        task = await app.enqueue(filled, fits + 1)
        with pytest.raises(StepFailedError):
            await task.result(timeout=LIMIT)


async def test_what_a_caller_hands_over_is_refused_at_the_call(url: str) -> None:
    async with Tenuto(url, limits=Limits(value_bytes=4 * KIB)) as app:
        around = 4  # [[text], {}]
        fits = largest_text(4 * KIB) - around + 1
        assert await (await app.start(hands_on, "x" * fits)).result(timeout=LIMIT) == fits
        with pytest.raises(LimitError) as refused:
            await app.start(hands_on, "x" * (fits + 1))
        assert (refused.value.limit, refused.value.size) == (4 * KIB, 4 * KIB + 1)
        run = await app.start(waits)
        for call in (run.signal("go", "x" * 5_000), run.supply("x", "x" * 5_000), app.enqueue(filled, "x" * 5_000)):
            with pytest.raises(LimitError):
                await call
        await run.terminate()


async def test_a_higher_limit_lets_larger_values_through(url: str) -> None:
    size = 3 * 2**20
    async with Tenuto(url) as app:
        with pytest.raises(LimitError):
            await app.start(hands_on, "x" * size)
    async with Tenuto(url, limits=Limits(value_bytes=4 * 2**20)) as app:
        assert await (await app.start(hands_on, "x" * size)).result(timeout=LIMIT) == size
        assert await (await app.start(makes, size)).result(timeout=LIMIT) == size


async def test_apps_in_one_process_keep_their_own_limits() -> None:
    async with Tenuto("memory://", limits=Limits(value_bytes=KIB)) as small, Tenuto("memory://") as large:
        assert await (await large.start(makes, 2 * KIB)).result(timeout=LIMIT) == 2 * KIB
        with pytest.raises(LimitError):
            await small.start(hands_on, "x" * KIB)
        with pytest.raises(RunFailedError):
            await (await small.start(makes, 2 * KIB)).result(timeout=LIMIT)
        assert await (await large.start(hands_on, "x" * 2 * KIB)).result(timeout=LIMIT) == 2 * KIB


def test_limits_hold_without_await_too() -> None:
    with Tenuto.sync("memory://", limits=Limits(value_bytes=KIB)) as app:
        with pytest.raises(LimitError):
            app.start(hands_on, "x" * KIB)
        assert app.start(hands_on, "x").result(timeout=LIMIT) == 1


# --- names, messages


async def test_ids_and_names_have_at_most_255_bytes(app: Tenuto) -> None:
    longest = "ä" * 127 + "x"
    assert await (await app.start(hands_on, "x", id=longest)).result(timeout=LIMIT) == 1
    with pytest.raises(InvalidNameError):
        await app.start(hands_on, "x", id=longest + "x")
    run = await app.start(waits)
    await run.signal("n" * 255)
    for call in (run.signal("n" * 256), app.queue("q" * 256), app.enqueue(nothing, key="k" * 256)):
        with pytest.raises(InvalidNameError):
            await call
    await run.terminate()


async def test_a_run_buffers_only_so_many_messages(url: str) -> None:
    async with Tenuto(url, queues=["nobody"], limits=Limits(buffered_messages=3)) as app:
        run = await app.start(waits)
        for n in range(3):
            await run.signal("go", n)
        with pytest.raises(LimitError) as refused:
            await run.signal("go", 3)
        assert (refused.value.what, refused.value.limit) == ("buffered messages", 3)
        with pytest.raises(LimitError):
            await run.update("any", timeout=LIMIT)


# --- history


async def test_a_run_whose_history_is_too_long_is_parked_with_its_reason(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Tenuto(url, limits=Limits(history_entries=10)) as app:
        assert await (await app.start(steps, 11)).result(timeout=LIMIT) == 11
        with caplog.at_level(logging.WARNING, "tenuto.host"):
            run = await app.start(steps, 12)  # with eleven it would end before anybody minds
            await app.wait_until(lambda: _is(run, "parked"), LIMIT)
        said = await run.explain()
        assert "TN218" in (said.reason or "")
        assert "11 is over the limit of 10" in (said.reason or "")
        assert len(await run.history()) == 11  # what was done is kept
    assert any("more than half of what it may have" in record.message for record in caplog.records)


async def test_bytes_of_history_are_counted_too(url: str) -> None:
    async with Tenuto(url, limits=Limits(history_bytes=8 * KIB)) as app:
        assert await (await app.start(makes_two, 3 * KIB)).result(timeout=LIMIT) == 3 * KIB
        run = await app.start(makes_two, 5 * KIB)
        await app.wait_until(lambda: _is(run, "parked"), LIMIT)
        assert "bytes in one history" in ((await run.explain()).reason or "")


async def test_a_parked_run_goes_on_under_a_higher_limit(lasting_url: str) -> None:
    async with Tenuto(lasting_url, limits=Limits(history_entries=3)) as app:
        run = await app.start(steps, 5, id="long")
        await app.wait_until(lambda: _is(run, "parked"), LIMIT)
    async with Tenuto(lasting_url) as app:
        await app.get("long").resume()
        assert await app.get("long").result(timeout=LIMIT) == 5


async def test_a_run_that_continues_as_new_never_grows_too_long(url: str) -> None:
    async with Tenuto(url, limits=Limits(history_entries=6)) as app:
        assert await (await app.start(steps_for_ever, 4)).result(timeout=LIMIT) == "done"


# --- fan-out, commands, pages


@pytest.mark.parametrize("construct", ["parallel", "join", "race"])
async def test_a_construct_has_only_so_many_branches(construct: str) -> None:
    async with Tenuto("memory://", limits=Limits(fan_out=5)) as app:
        assert await (await app.start(spreads, construct, 5)).result(timeout=LIMIT) == "spread"
        with pytest.raises(RunFailedError) as failed:
            await (await app.start(spreads, construct, 6)).result(timeout=LIMIT)
        cause = failed.value.__cause__
        assert isinstance(cause, LimitError)
        assert (cause.limit, cause.size) == (5, 6)


async def test_a_turn_begins_only_so_much(url: str) -> None:
    async with Tenuto(url, limits=Limits(commands_per_turn=20)) as app:
        assert await (await app.start(begins_steps, 20)).result(timeout=LIMIT) == "begun"
        run = await app.start(begins_steps, 21)
        await app.wait_until(lambda: _is(run, "parked"), LIMIT)
        assert "commands of one turn: 21 is over the limit of 20" in ((await run.explain()).reason or "")
        assert await run.history() == []  # nothing of that turn was written


async def test_what_a_turn_takes_back_does_not_count(url: str) -> None:
    async with Tenuto(url, limits=Limits(commands_per_turn=20)) as app:
        assert await (await app.start(begins, 30)).result(timeout=LIMIT) == "begun"


async def test_a_list_goes_on_page_after_page(url: str) -> None:
    async with Tenuto(url, queues=["nobody"], limits=Limits(page=3)) as app:
        for _ in range(5):
            await app.start(waits)
        assert len([run async for run in app.runs(limit=2)]) == 2
        assert len([run async for run in app.runs(limit=4)]) == 4
        assert await app.each().terminate() == 5  # page by page, all of them


@pytest.mark.parametrize("wrong", [{"page": 0}, {"fan_out": -1}, {"value_bytes": 1.5}, {"history_bytes": True}])
def test_a_limit_is_a_positive_number(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)


async def _is(run: Any, status: str) -> bool:
    return bool(await run.status() == status)
