"""TWF programs: the same on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, fresh

from tenuto import Tenuto, spawn, workflow
from tenuto.errors import RunCancelledError, RunFailedError, TwfError, UpdateFailedError, UpdateRejectedError
from tenuto.model.registry import default
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import Bindings, load_program

FLOWS = """
workflow Pay(n: int) -> (int):
    activity Double(n) -> d
    await timer(50ms)
    close d + 1

activity Double(x: int) -> (int):
    return x * 2

workflow Account(opening: int) -> (int):
    signal Deposit(amount: int):
        balance = balance + amount
    signal Close():
        done = true
    query Balance() -> (int):
        return balance
    update Withdraw(amount: int) -> (int):
        if (amount > balance):
            return -1
        balance = balance - amount
        return balance
    balance = opening
    await signal Close
    close balance

workflow Family(n: int) -> (int):
    workflow Pay(n) -> first
    activity Double(first) -> second
    close second

workflow Chain(n: int) -> (int):
    if (n < 1):
        close 42
    continue_as_new(n - 1)
"""


@pytest.fixture
def b() -> Iterator[Bindings]:
    """A library of this case alone."""
    sorts: tuple[Any, ...] = ("workflow", "step")
    before = {item.id for sort in sorts for item in default.definitions(sort)}
    kept = dict(default.provided(TwfProvider).library.programs), list(default.provided(TwfProvider).library.bindings)
    bindings = Bindings()
    load_program(files={"flow.twf": FLOWS.lstrip("\n")}, bindings=bindings)
    yield bindings
    for sort in sorts:
        for item in default.definitions(sort):
            if item.id not in before:
                default.forget(item.id)
    default.provided(TwfProvider).library.programs, default.provided(TwfProvider).library.bindings = kept


async def test_activities_timers_and_bindings(b: Bindings, stage: Stage) -> None:
    """T001, T003"""
    run = await stage.start("Pay", 3)
    assert await run.result(timeout=LIMIT) == 7
    assert [(entry.location, entry.kind) for entry in await run.history()] == [("Double", "step"), ("timer", "sleep")]
    b.activity("Double")(lambda n: 100)
    assert await stage.run("Pay", 3) == 101


async def test_failures_say_where(b: Bindings, stage: Stage) -> None:
    """T004, T006"""

    @b.activity("Double", backoff="1ms")
    def double(n: int) -> int:
        raise ValueError("no")

    run = await stage.start("Pay", 3)
    with pytest.raises(RunFailedError) as raised:
        await run.result(timeout=LIMIT)
    found = raised.value.__cause__
    assert isinstance(found, TwfError)
    assert (found.code, found.type, found.message, found.source) == ("TWF500", "ValueError", "no", "Double")
    with pytest.raises(TwfError, match="Pay takes"):
        await stage.start("Pay")


async def test_signals_updates_and_queries(b: Bindings, stage: Stage) -> None:
    """T010 to T016"""
    run = await stage.start("Account", 10)
    assert await run.query("Balance") == 10
    assert await run.update("Withdraw", 100, timeout=LIMIT) == -1
    assert await run.update("Withdraw", 4, id="w", timeout=LIMIT) == 6
    assert await run.update("Withdraw", 4, id="w", timeout=LIMIT) == 6
    with pytest.raises(UpdateRejectedError):
        await run.update("Nope", timeout=LIMIT)
    with pytest.raises(UpdateFailedError) as failed:
        await run.update("Withdraw", None, timeout=LIMIT)
    assert isinstance(failed.value.__cause__, TwfError)
    with pytest.raises(TwfError, match="Deposit takes"):
        await run.signal("Deposit")
    await run.signal("Deposit", 5)
    await run.signal("Close")
    assert await run.result(timeout=LIMIT) == 11
    assert await run.query("Balance") == 11


@workflow
async def calls_a_program(n: int) -> Any:
    return await (await spawn(default.get("Pay"), n))  # type: ignore[arg-type]


async def test_programs_and_functions_call_each_other_as_children(b: Bindings, stage: Stage) -> None:
    """T050"""
    assert await stage.run("Family", 3) == 14
    assert await stage.run(calls_a_program, 3) == 7


async def test_a_program_continues_as_new(b: Bindings, stage: Stage) -> None:
    """T060"""
    assert await stage.run("Chain", 1) == 42


async def test_a_cancelled_program_ends_cancelled(b: Bindings, stage: Stage) -> None:
    """T120"""
    run = await stage.start("Account", 1)
    assert await run.query("Balance") == 1
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)


async def test_a_run_keeps_the_text_it_started_with(b: Bindings, stage: Stage) -> None:
    """T110"""
    run = await stage.start("Account", 10)
    assert await run.query("Balance") == 10
    load_program(files={"flow.twf": FLOWS.lstrip("\n").replace("return -1", "return -2")}, bindings=b)
    assert await run.update("Withdraw", 100, timeout=LIMIT) == -1
    other = await stage.start("Account", 10)
    assert await other.update("Withdraw", 100, retry_for=LIMIT, timeout=LIMIT) == -2
    for one in (run, other):
        await one.signal("Close")
        assert await one.result(timeout=LIMIT) == 10


NEXUS = """
workflow NexusHere() -> (int):
    nexus "pay" workflow NexusThere(20) -> r
    close r + 1

workflow NexusThere(n: int) -> (int):
    await timer(10ms)
    close n * 2
"""


async def test_a_program_on_a_cluster_calls_another_store_by_its_namespace(
    b: Bindings, temporal_server: str, tmp_path: Path
) -> None:
    load_program(files={"nexus.twf": NEXUS.lstrip("\n")})
    other = f"sqlite:///{tmp_path / 'pay.db'}"
    url = f"temporal://{temporal_server}/default?task_queue={fresh('nexus')}"
    async with Tenuto(other) as there, Tenuto(url, grace=1, namespaces={"pay": other}) as app:
        run = await app.start("NexusHere")
        assert await run.result(timeout="30s") == 41
        assert len([one async for one in there.runs()]) == 1
