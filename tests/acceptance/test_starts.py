"""Starts: refused at the call, or stored once, whatever their chain has become since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenuto import ContinueAsNew, Encryption, Tenuto, now, side_effect, sleep, step, wait_for_signal, workflow
from tenuto.errors import InvalidNameError, RunIdConflictError
from tenuto.testing import Engine

LIMIT = "20s"
BEGUN: list[Any] = []


@workflow
async def noting(number: int) -> int:
    BEGUN.append(number)
    await side_effect(lambda: BEGUN.append("side effect"))
    return number


@workflow
async def other(number: int) -> int:
    return number


@workflow
async def links(most: int, number: int = 0) -> int | ContinueAsNew:
    """A chain that goes on twice, then waits."""
    BEGUN.append(number)
    if number < most:
        return ContinueAsNew(most, number + 1)
    await wait_for_signal("end")
    return number


@workflow
async def optional(first: int, second: int = 0) -> int:
    return first + second


@step
async def short() -> None:
    pass


@workflow
async def timed() -> Any:
    begun = now()
    await short()
    await sleep(0)
    return begun


@pytest.fixture(autouse=True)
def _fresh() -> None:
    BEGUN.clear()


async def stored(app: Tenuto) -> list[str]:
    return [run.id async for run in app.runs()]


# --- an id that is known


@pytest.mark.parametrize("ended", [True, False])
async def test_a_chain_of_runs_is_found_by_what_its_first_run_was_started_with(app: Tenuto, ended: bool) -> None:
    """R062: a service that starts its singleton at boot may boot again."""
    run = await app.start(links, 2, id="chain")
    async with asyncio.timeout(20):
        while len(BEGUN) < 3:
            await asyncio.sleep(0.01)
    if ended:
        await run.signal("end")
        assert await run.result(timeout=LIMIT) == 2
    begun = list(BEGUN)
    assert (await app.start(links, 2, id="chain")).id == run.id
    calls: list[Any] = [(links, 2, 2), (links, 3), (other, 2)]
    for call in calls:
        with pytest.raises(RunIdConflictError):
            await app.start(*call, id="chain")
    assert (await app.start(links, 9, id="chain", if_exists="attach")).id == run.id
    with pytest.raises(RunIdConflictError):
        await app.start(other, 9, id="chain", if_exists="attach")
    with pytest.raises(RunIdConflictError):
        await app.start(links, 2, id="chain", if_exists="error")
    assert begun == BEGUN


async def test_no_code_of_a_run_is_run_for_an_id_that_is_known(app: Tenuto) -> None:
    """R062: a body that computes would block the caller for as long."""
    await (await app.start(noting, 1, id="a")).result(timeout=LIMIT)
    assert BEGUN == [1, "side effect"]
    for number in (1, 1, 2):
        try:
            await app.start(noting, number, id="a")
        except RunIdConflictError:
            assert number == 2
    for how in ("same", "attach", "restart_failed"):
        await app.start(noting, 1, id="a", if_exists=how)
    assert BEGUN == [1, "side effect"]


async def test_no_code_of_a_run_is_run_for_a_key_that_is_taken(app: Tenuto) -> None:
    first = await app.start(links, 0, key="one")
    await asyncio.sleep(0)
    again = await app.start(noting, 1, key="one")
    assert (again.id, BEGUN) == (first.id, [0])


async def test_an_id_that_is_made_costs_no_look(app: Tenuto, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    get = app.store.get

    async def counting(run_id: str) -> Any:
        looks.append(run_id)
        return await get(run_id)

    monkeypatch.setattr(app.store, "get", counting)
    await app.start(noting, 1)
    assert looks == []
    await app.start(noting, 1, id="a")
    assert looks == ["a"]


async def test_starts_of_one_id_that_come_together_give_one_run(app: Tenuto) -> None:
    runs = await asyncio.gather(*(app.start(noting, 1, id="a") for _ in range(20)))
    assert {run.id for run in runs} == {"a"}
    assert await stored(app) == ["a"]


async def test_a_chain_is_found_by_its_first_input_where_values_are_encrypted(lasting_url: str) -> None:
    """R062."""
    async with Tenuto(lasting_url, grace=1, codec=Encryption({"k": Encryption.new_key()})) as app:
        run = await app.start(links, 2, id="chain")
        await run.signal("end")
        assert await run.result(timeout=LIMIT) == 2
        assert (await app.start(links, 2, id="chain")).id == run.id
        with pytest.raises(RunIdConflictError):
            await app.start(links, 3, id="chain")


# --- calls that cannot be


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"idd": "order-1"}, TypeError, "no option 'idd'; is it id="),
        ({"queu": "q"}, TypeError, "no option 'queu'; is it queue="),
        ({"second": 7}, TypeError, r"no option 'second'.*\.bind\(\)"),
        ({"id": 5}, InvalidNameError, "5"),
        ({"id": ""}, InvalidNameError, "empty"),
        ({"if_exists": "nonsense"}, ValueError, "not 'nonsense'"),
        ({"if_exists": []}, ValueError, r"not \[\]"),
        ({"attributes": 3}, TypeError, "mapping"),
        ({"attributes": {"a": None}}, TypeError, "'a': None"),
        ({"attributes": {"a": float("nan")}}, ValueError, "nan"),
        ({"priority": "high"}, TypeError, "whole number"),
        ({"delay": "soon"}, ValueError, "duration"),
        ({"queue": "x" * 300}, InvalidNameError, "255"),
    ],
)
async def test_an_option_that_start_does_not_have_or_cannot_take_is_refused(
    app: Tenuto, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    """R081."""
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: app.start(optional, 1, **options),
        lambda: app.start("optional", 1, **options),
        lambda: app.start(optional.bind(1), **options),
    ]
    for call in calls:
        with pytest.raises(error, match=text):
            await call()
    assert await stored(app) == []


@pytest.mark.parametrize("args", [(), (1, 2, 3)])
async def test_arguments_that_do_not_fit_are_refused(app: Tenuto, args: tuple[int, ...]) -> None:
    """R081: by object or by name, for a start or a schedule."""
    untyped: Any = optional
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: app.start(untyped, *args),
        lambda: app.start(untyped, *args, id="a"),
        lambda: app.start("optional", *args),
        lambda: app.start("optional", *args, delay="1h"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="workflow 'optional': "):
            await call()
    assert await stored(app) == []


async def test_a_schedule_of_a_workflow_that_needs_arguments_is_refused(app: Tenuto) -> None:
    untyped: Any = optional
    for target in (untyped, "optional"):
        with pytest.raises(TypeError, match="workflow 'optional': "):
            await app.schedule("x", target, every="1h")
    assert [schedule async for schedule in app.schedules()] == []
    await app.schedule("x", optional.bind(1, second=2), every="1h")


async def test_what_fits_is_started_in_every_form(app: Tenuto) -> None:
    untyped: Any = optional
    runs = [
        await app.start(untyped, 1),
        await app.start(optional, 1, 2),
        await app.start(optional.bind(first=1, second=2)),
        await app.start("optional", 1, 2, priority=1, attributes={"a": 1, "b": "x", "c": True, "d": 0.5}),
    ]
    assert [await run.result(timeout=LIMIT) for run in runs] == [1, 3, 3, 3]


async def test_a_workflow_that_is_not_loaded_here_is_started_with_what_it_is_given(app: Tenuto) -> None:
    run = await app.start("workflow//src/elsewhere.py//elsewhere", 1, 2, 3)
    assert await run.status() == "pending"


# --- times


async def test_a_run_was_created_when_its_first_turn_was_taken(app: Tenuto) -> None:
    run = await app.start(timed)
    begun = await run.result(timeout=LIMIT)
    (summary,) = [found async for found in app.runs()]
    assert summary.created_at == begun
    first, *_ = await run.history()
    assert first.began is not None
    assert first.began >= summary.created_at


# --- the test engine


async def test_the_test_engine_finds_a_chain_by_what_its_first_run_was_started_with() -> None:
    """R062 on virtual time."""
    engine = Engine()
    run = await engine.start(links, 2, id="chain")
    await engine.settle()
    assert BEGUN == [0, 1, 2]
    assert (await engine.start(links, 2, id="chain")).id == run.id
    untyped: Any = links
    for args in ((2, 2), (3,)):
        with pytest.raises(RunIdConflictError):
            await engine.start(untyped, *args, id="chain")
    with pytest.raises(TypeError, match="workflow 'links': "):
        await engine.start(untyped)
    await run.signal("end")
    assert await run.result() == 2
    assert (await engine.start(links, 2, id="chain")).id == run.id
    engine.close()
