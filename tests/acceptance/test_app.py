"""The app object with its embedded worker, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import (
    ContinueAsNew,
    FatalError,
    Reply,
    RetryableError,
    Stop,
    Task,
    Tenuto,
    heartbeat,
    hook,
    publish_state,
    receive,
    sleep,
    spawn,
    step,
    step_info,
    wait_for_signal,
    workflow,
)
from tenuto.errors import (
    ChildFailedError,
    ConfigError,
    HookNotFoundError,
    RunCancelledError,
    RunClosedError,
    RunFailedError,
    RunIdConflictError,
    RunNotFoundError,
    RunTerminatedError,
    StepExhaustedError,
    UpdateRejectedError,
)

LIMIT = "20s"
CALLS: list[str] = []


@step
async def double(number: int) -> int:
    return number * 2


@step
def half(number: int) -> float:
    """A `def` step: runs in a thread."""
    return number / 2


@step
async def flaky(until: int) -> int:
    if step_info().attempt < until:
        raise RetryableError("not yet", after=0.01)
    return step_info().attempt


@step(max_attempts=1)
async def refuse(text: str) -> None:
    raise FatalError(text)


@step(queue="reports")
async def report(month: int) -> str:
    return f"report {month}"


@workflow
async def arithmetic(number: int) -> float:
    await sleep("20ms")
    return await half(await double(number))


@workflow
async def retrying() -> int:
    return await flaky(3)


@workflow
async def doomed(text: str) -> None:
    await refuse(text)


@workflow
async def approval() -> str:
    publish_state({"status": "waiting"})
    answer = await wait_for_signal("approve")
    publish_state({"status": "approved"})
    return f"approved by {answer}"


@approval.query("status")
def status_of(state: dict[str, str] | None) -> str:
    return "unknown" if state is None else state["status"]


def _add(items: list[str], item: str) -> Reply[list[str]]:
    return Reply(len(items) + 1, [*items, item])


def _close(items: list[str]) -> Stop[list[str]]:
    return Stop(items, reply="closed")


@workflow
async def cart() -> list[str]:
    items: list[str] = []
    items, _ = await receive(items, updates={"add": _add, "close": _close})
    return items


@workflow
async def family(text: str) -> list[Any]:
    good = await spawn(arithmetic, 4)
    bad = await spawn(doomed, text)
    try:
        await bad
    except ChildFailedError as error:
        return [await good, str(error.__cause__.__cause__)]  # type: ignore[union-attr]
    return []


@workflow
async def reports(months: int) -> list[str]:
    return await Task.all([Task.run(report, month) for month in range(months)])


@workflow
async def counting(number: int) -> int | ContinueAsNew:
    if number < 3:
        return ContinueAsNew(number + 1)
    return number


@workflow
async def called_back() -> list[Any]:
    h = await hook()
    publish_state(h.token)
    return [await h, await h]


@step(max_attempts=2)
async def await_what_was_cancelled() -> None:
    CALLS.append("attempt")
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


@workflow
async def meets_a_cancelled_task() -> None:
    await await_what_was_cancelled()


async def test_a_step_that_ends_with_a_cancellation_nobody_asked_for_has_failed(app: Tenuto) -> None:
    CALLS.clear()
    run = await app.start(meets_a_cancelled_task)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, StepExhaustedError)
    assert CALLS == ["attempt", "attempt"]


async def test_a_run_gives_its_result(app: Tenuto) -> None:
    run = await app.start(arithmetic, 21)
    assert await run.result(timeout=LIMIT) == 21.0
    assert await run.status() == "completed"


async def test_the_same_id_and_input_is_the_same_run_and_other_input_is_a_conflict(app: Tenuto) -> None:
    """R062"""
    first = await app.start(arithmetic, 2, id="a")
    assert await first.result(timeout=LIMIT) == 2.0
    again = await app.start(arithmetic, 2, id="a")
    assert await again.result(timeout=LIMIT) == 2.0
    with pytest.raises(RunIdConflictError):
        await app.start(arithmetic, 3, id="a")
    attached = await app.start(arithmetic, 3, id="a", if_exists="attach")
    assert await attached.result(timeout=LIMIT) == 2.0
    with pytest.raises(RunIdConflictError):
        await app.start(retrying, id="a", if_exists="attach")


async def test_a_failed_run_can_be_restarted_under_its_id(app: Tenuto) -> None:
    with pytest.raises(RunFailedError):
        await (await app.start(doomed, "no", id="d")).result(timeout=LIMIT)
    again = await app.start(doomed, "still no", id="d", if_exists="restart_failed")
    with pytest.raises(RunFailedError) as failed:
        await again.result(timeout=LIMIT)
    assert "still no" in str(failed.value.__cause__.__cause__)  # type: ignore[union-attr]


async def test_a_step_is_tried_again_and_its_attempts_are_counted(app: Tenuto) -> None:
    run = await app.start(retrying)
    assert await run.result(timeout=LIMIT) == 3
    [entry] = await run.history()
    assert (entry.kind, entry.attempts) == ("step", 3)


async def test_a_failed_run_raises_with_its_cause(app: Tenuto) -> None:
    run = await app.start(doomed, "sold out")
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert str(failed.value.__cause__.__cause__) == "sold out"  # type: ignore[union-attr]


async def test_signals_reach_the_run_and_queries_read_what_it_published(app: Tenuto) -> None:
    run = await app.start(approval)
    await app.wait_until(lambda: _published(run, "waiting"), LIMIT)
    assert await run.query("status") == "waiting"
    await run.signal("approve", "Ada")
    assert await run.result(timeout=LIMIT) == "approved by Ada"
    assert await run.query(status_of) == "approved"
    with pytest.raises(RunClosedError):
        await run.signal("approve", "Bob")


async def _published(run: Any, status: str) -> bool:
    state = await run.query()
    return state is not None and state["status"] == status


async def test_updates_are_answered_and_the_same_id_gives_the_same_answer(app: Tenuto) -> None:
    run = await app.start(cart)
    assert await run.update("add", "violin", id="u1", retry_for="5s", timeout=LIMIT) == 1
    assert await run.update("add", "violin", id="u1", timeout=LIMIT) == 1
    assert await run.update("add", "bow", timeout=LIMIT) == 2
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("nonsense", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    assert await run.update("close", timeout=LIMIT) == "closed"
    assert await run.result(timeout=LIMIT) == ["violin", "bow"]
    with pytest.raises(UpdateRejectedError) as closed:
        await run.update("add", "late", timeout=LIMIT)
    assert closed.value.why == "closed"


async def test_children_give_their_results_and_their_failures(app: Tenuto) -> None:
    assert await (await app.start(family, "broke")).result(timeout=LIMIT) == [4.0, "broke"]


async def test_queued_steps_run_as_tasks(app: Tenuto) -> None:
    run = await app.start(reports, 20)
    assert await run.result(timeout=LIMIT) == [f"report {month}" for month in range(20)]


async def test_a_chain_of_runs_has_one_id_and_the_last_result(app: Tenuto) -> None:
    assert await (await app.start(counting, 0, id="chain")).result(timeout=LIMIT) == 3


async def test_a_hook_takes_payloads_in_order_and_its_token_dies_with_the_run(app: Tenuto) -> None:
    """M093"""
    run = await app.start(called_back)
    await app.wait_until(lambda: _has_token(run), LIMIT)
    token = await run.query()
    await app.send_hook(token, 1)
    await app.send_hook(token, 2)
    assert await run.result(timeout=LIMIT) == [1, 2]
    with pytest.raises(HookNotFoundError):
        await app.send_hook(token, 3)


async def _has_token(run: Any) -> bool:
    return await run.query() is not None


async def test_a_cancelled_run_ends_cancelled(app: Tenuto) -> None:
    run = await app.start(approval)
    await app.wait_until(lambda: _published(run, "waiting"), LIMIT)
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)


async def test_a_terminated_run_runs_no_more_code(app: Tenuto) -> None:
    run = await app.start(approval)
    await app.wait_until(lambda: _published(run, "waiting"), LIMIT)
    await run.terminate("off")
    with pytest.raises(RunTerminatedError):
        await run.result(timeout=LIMIT)
    assert await run.query("status") == "waiting"


async def test_a_paused_run_goes_on_when_it_is_resumed(app: Tenuto) -> None:
    run = await app.start(approval)
    await app.wait_until(lambda: _published(run, "waiting"), LIMIT)
    await run.pause()
    await app.wait_until(lambda: _is(run, "paused"), LIMIT)
    await run.signal("approve", "Ada")
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.2)
    await run.resume()
    assert await run.result(timeout=LIMIT) == "approved by Ada"


async def _is(run: Any, status: str) -> bool:
    return await run.status() == status


async def test_rewinding_does_again_what_came_after(app: Tenuto) -> None:
    """R057"""
    run = await app.start(arithmetic, 8)
    assert await run.result(timeout=LIMIT) == 8.0
    await run.rewind(to="half")
    assert await run.result(timeout=LIMIT) == 8.0
    assert [entry.location for entry in await run.history()] == ["sleep", "double", "half"]


async def test_an_exhausted_run_can_be_recovered(app: Tenuto) -> None:
    """R059"""
    broken = True

    @step(max_attempts=1)
    async def repaired_later() -> str:
        if broken:
            raise ConnectionError("down")
        return "up"

    @workflow
    async def recovering() -> str:
        return await repaired_later()

    run = await app.start(recovering)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, StepExhaustedError)
    broken = False
    await run.recover()
    assert await run.result(timeout=LIMIT) == "up"


async def test_runs_can_be_listed_and_searched(app: Tenuto) -> None:
    await (await app.start(arithmetic, 1, id="x", attributes={"customer": "ada"})).result(timeout=LIMIT)
    await (await app.start(arithmetic, 2, id="y")).result(timeout=LIMIT)
    assert [run.id async for run in app.runs(status="completed")] == ["y", "x"]
    assert [run.id async for run in app.runs(attributes={"customer": "ada"})] == ["x"]


async def test_many_runs_at_once_all_end(app: Tenuto) -> None:
    runs = [await app.start(arithmetic, number) for number in range(150)]
    assert await asyncio.gather(*(run.result(timeout="60s") for run in runs)) == [float(n) for n in range(150)]


async def test_an_unknown_run_is_said_to_be_unknown(app: Tenuto) -> None:
    with pytest.raises(RunNotFoundError):
        await app.get("nobody").status()


@pytest.mark.parametrize("bad", ["nonsense", "mysql://x", "sqlite:///x.db?speed=ludicrous"])
def test_a_wrong_url_is_said_to_be_wrong(bad: str) -> None:
    with pytest.raises(ConfigError):
        Tenuto(bad)


async def test_a_run_explains_what_it_waits_for(app: Tenuto) -> None:
    """R073"""
    run = await app.start(approval)
    await app.wait_until(lambda: _published(run, "waiting"), LIMIT)
    await app.wait_until(lambda: _is(run, "suspended"), LIMIT)
    explanation = await run.explain()
    assert (explanation.status, explanation.signals) == ("suspended", ("approve",))
    assert "signal 'approve'" in str(explanation)
    await run.signal("approve", "Ada")
    await run.result(timeout=LIMIT)
    assert "it has ended" in str(await run.explain())


async def test_a_run_that_retries_says_when_and_why(app: Tenuto) -> None:
    """R073"""

    @step(max_attempts=2, backoff="1h", backoff_max="1h")
    async def down() -> None:
        raise ConnectionError("bank is down")

    @workflow
    async def unlucky() -> None:
        await down()

    run = await app.start(unlucky)
    await app.wait_until(lambda: _is(run, "suspended"), LIMIT)
    [operation] = (await run.explain()).pending
    assert (operation.location, operation.attempt) == ("down", 2)
    assert isinstance(operation.error, ConnectionError)
    assert operation.until is not None


async def test_watching_a_run_shows_each_entry_and_the_end(app: Tenuto) -> None:
    run = await app.start(arithmetic, 6)
    events = [(event.location, event.status) async for event in run.watch()]
    assert events[-1] == ("", "completed")
    assert ("half", "completed") in events


async def test_a_value_supplied_by_hand_stands_for_the_steps_own(app: Tenuto) -> None:
    """R071"""
    hanging = asyncio.Event()

    @step
    async def hangs() -> str:
        await hanging.wait()
        return "its own"

    @workflow
    async def stuck() -> str:
        return await hangs()

    run = await app.start(stuck)
    await app.wait_until(lambda: _is(run, "running"), LIMIT)
    await run.supply("hangs", "by hand")
    assert await run.result(timeout=LIMIT) == "by hand"
    [entry] = await run.history()
    assert entry.supplied
    hanging.set()


def test_synchronous_programs_use_the_same_verbs_without_await(url: str) -> None:
    with Tenuto.sync(url, grace=1) as sync_app:
        run = sync_app.start(arithmetic, 10)
        assert run.result(timeout=LIMIT) == 10.0
        assert [entry.location for entry in run.history()] == ["sleep", "double", "half"]
        assert [record.id for record in sync_app.runs()] == [run.id]


@workflow
async def follower(other: str) -> str:
    followed = await spawn(approval, id=other, if_exists="attach")
    return f"heard: {await followed}"


async def test_a_run_that_attaches_hears_the_end_of_the_other_when_it_comes_and_at_once_after_it(app: Tenuto) -> None:
    """M091, R072"""
    other = await app.start(approval, id="other")
    await app.wait_until(lambda: _published(other, "waiting"), LIMIT)
    early = await app.start(follower, "other")
    await app.wait_until(lambda: _is(early, "suspended"), LIMIT)
    await other.signal("approve", "Ada")
    assert await early.result(timeout=LIMIT) == "heard: approved by Ada"
    late = await app.start(follower, "other")
    assert await late.result(timeout=LIMIT) == "heard: approved by Ada"


@step(max_attempts=2, backoff="10ms")
def importing(rows: int) -> int:
    start = (step_info().details or {"row": 0})["row"]
    for row in range(start, rows):
        heartbeat({"row": row})
        if row == 40 and step_info().attempt == 1:
            raise ConnectionError("gone at row 40")
    return start


@workflow
async def import_all(rows: int) -> int:
    return await importing(rows)


async def test_the_details_of_the_last_heartbeat_reach_the_next_attempt(app: Tenuto) -> None:
    """M007"""
    assert await (await app.start(import_all, 100)).result(timeout=LIMIT) == 40


@workflow
async def hooked(token: str) -> str:
    first = await hook(token)
    publish_state("open")
    value = await first
    first.close()
    publish_state("closed")
    await wait_for_signal("end")
    return str(value)


async def test_a_closed_hooks_token_is_free_again(app: Tenuto) -> None:
    run = await app.start(hooked, "address-1")
    await app.wait_until(lambda: _state_is(run, "open"), LIMIT)
    await app.send_hook("address-1", "hello")
    await app.wait_until(lambda: _state_is(run, "closed"), LIMIT)
    with pytest.raises(HookNotFoundError):
        await app.send_hook("address-1", "too late")
    second = await app.start(hooked, "address-1")
    await app.wait_until(lambda: _state_is(second, "open"), LIMIT)
    await run.signal("end")
    assert await run.result(timeout=LIMIT) == "hello"


async def _state_is(run: Any, state: str) -> bool:
    return await run.query() == state
