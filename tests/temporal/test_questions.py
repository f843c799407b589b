"""What a cluster is asked: why a run waits, where its code stands; and options that would go nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, add, add_numbers, fresh, held, hold, stop

from tenuto import Encryption, Limits, Tenuto, publish_state, receive, step, wait_for_signal, workflow
from tenuto.errors import ConfigError, LimitError, RunFailedError

# --- explain


@step(name="questions.always_fails", max_attempts=50, backoff="10ms", backoff_max="30s")
async def always_fails(why: str) -> None:
    raise LookupError(why)


@workflow
async def calls_what_fails(why: str) -> None:
    await always_fails(why)


async def test_explain_has_the_attempt_the_last_error_and_the_next_try_of_a_step(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(calls_what_fails, "the shop is closed")

    seen: list[Any] = []

    async def has_failed_often() -> bool:
        seen[:] = (await run.explain()).pending
        return bool(seen) and seen[0].until is not None and seen[0].attempt > 4

    await stage.until(has_failed_often)
    (operation,) = seen
    assert operation.location == "questions.always_fails"
    assert f"failed {operation.attempt - 1} times, tries again at" in operation.what
    assert isinstance(operation.error, LookupError)
    assert "the shop is closed" in str(operation.error)
    assert operation.until is not None
    assert abs((operation.until - datetime.now(UTC)).total_seconds()) < 60
    await run.terminate()


@workflow
async def holds_one(name: str) -> Any:
    return await hold(name, 1)


@workflow
async def waits_for_a_worker(queue: str) -> Any:
    from tenuto import Task

    return await Task.run(add_numbers, 1, 2, queue=queue)


async def test_explain_says_whether_a_step_is_being_run_or_waits_for_a_worker(temporal_stage: Stage) -> None:
    stage = temporal_stage
    gate = held(name := fresh("held"))
    run = await stage.start(holds_one, name)
    await gate.until_entered()
    waiting = await stage.start(waits_for_a_worker, fresh("unserved"))

    async def both_are_there() -> bool:
        return bool((await run.explain()).pending and (await waiting.explain()).pending)

    await stage.until(both_are_there)
    assert [operation.what for operation in (await run.explain()).pending] == ["is being run"]
    assert [operation.what for operation in (await waiting.explain()).pending] == [
        "waits for a worker of its task queue"
    ]
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == 1
    await waiting.cancel()


# --- Temporal's own tools


@workflow
async def stands_somewhere(name: str) -> Any:
    async def deeper() -> Any:
        return (await receive([], updates={"add": add}, signals={"stop": stop})).state

    publish_state({"here": 1})
    return await deeper()


@stands_somewhere.query("total")
def total_of(state: Any) -> Any:
    return state


async def test_a_stack_trace_is_that_of_the_runs_own_code(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(stands_somewhere, "x")
    await stage.until_accepting(run, "add")
    handle = stage.app.engine._connection.handle(run.id)
    stack = await handle.query("__stack_trace", result_type=str)
    assert "test_questions.py" in stack
    assert "in stands_somewhere" in stack
    assert "in deeper" in stack
    assert "waits for: " in stack
    await run.signal("stop")
    await run.result(timeout=LIMIT)


async def test_the_names_that_a_run_takes_are_offered_to_temporals_tools(temporal_stage: Stage) -> None:
    from temporalio.api.sdk.v1 import WorkflowMetadata

    stage = temporal_stage
    run = await stage.start(stands_somewhere, "x")
    await stage.until_accepting(run, "add")
    handle = stage.app.engine._connection.handle(run.id)
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    definition = metadata.definition
    assert [item.name for item in definition.query_definitions] == ["total"]
    assert [item.name for item in definition.signal_definitions] == ["stop"]
    assert [item.name for item in definition.update_definitions] == ["add"]
    await run.signal("stop")
    await run.result(timeout=LIMIT)


# --- a task that is lost with its worker


@workflow
async def published_and_waits() -> str:
    publish_state("in")
    await wait_for_signal("a")
    await add_numbers(1, 1)
    await wait_for_signal("b")
    return "end"


@pytest.mark.slow
async def test_a_question_right_after_a_restart_is_answered(temporal_server: str) -> None:
    """The server gives a task that went down with its worker to another one after ten seconds"""
    url = f"temporal://{temporal_server}/default?task_queue={fresh('restart')}"
    async with Tenuto(url, grace=1, lease="3s") as app:
        run = await app.start(published_and_waits)

        async def waits() -> bool:
            return "a" in (await run.explain()).signals

        await app.wait_until(waits, LIMIT)
        await run.signal("a")
    async with Tenuto(url, grace=1, lease="3s") as app:
        again = app.get(run.id)
        assert await again.query() == "in"
        await again.signal("b")
        assert await again.result(timeout=LIMIT) == "end"


async def test_a_question_that_failed_early_is_asked_once_more(
    temporal_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from temporalio.client import WorkflowHandle
    from temporalio.service import RPCError, RPCStatusCode

    ask, asked = WorkflowHandle.query, []

    async def lost_once(self: Any, *args: Any, **options: Any) -> Any:
        asked.append(options["rpc_timeout"].total_seconds())
        if len(asked) == 1:
            raise RPCError("the task was lost", RPCStatusCode.DEADLINE_EXCEEDED, b"")
        return await ask(self, *args, **options)

    async with Tenuto(f"temporal://{temporal_server}/default?task_queue={fresh('once-more')}", grace=1) as app:
        run = await app.start(published_and_waits)
        monkeypatch.setattr(WorkflowHandle, "query", lost_once)
        assert await run.query() == "in"
        await run.terminate()
    assert len(asked) == 2
    assert asked[0] > 10  # longer than the server takes to give the task to somebody else


# --- options


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"retention": "1d"}, "namespace"),
        ({"retention": None}, "namespace"),
        ({"max_reclaims": 2}, "max_reclaims"),
        ({"cache_bytes": 0}, "cache"),
        ({"block_limit": "1s"}, "block_limit"),
        ({"limits": Limits(history_entries=10)}, "history_entries"),
        ({"limits": Limits(buffered_messages=10)}, "buffered_messages"),
        ({"codec": Encryption({"k": Encryption.new_key()})}, "yet"),
    ],
)
def test_an_option_that_would_go_nowhere_is_refused(option: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tenuto("temporal://host/namespace", **option)


def test_options_as_they_are_by_default_are_none() -> None:
    Tenuto("temporal://host/namespace", retention="30d", limits=Limits(value_bytes=1000))


@workflow
async def echoes_large(data: str) -> str:
    return data * 100


async def test_limits_of_values_hold_on_a_cluster(temporal_server: str) -> None:
    url = f"temporal://{temporal_server}/default?task_queue={fresh('limits')}"
    async with Tenuto(url, grace=1, limits=Limits(value_bytes=1000)) as app:
        with pytest.raises(LimitError):
            await app.start(echoes_large, "x" * 1000)
        run = await app.start(echoes_large, "x" * 100)
        with pytest.raises(RunFailedError) as failed:
            await run.result(timeout=LIMIT)
        assert isinstance(failed.value.__cause__, LimitError)
        short = await app.start(echoes_large, "x")
        assert await short.result(timeout=LIMIT) == "x" * 100
