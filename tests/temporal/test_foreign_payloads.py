"""What other people's clients send: it is read as they meant it, or dropped, and never parks a run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, fresh, stop

from tenuto import Reply, publish_state, receive, sleep, wait_for_signal, workflow
from tenuto.errors import DecodingError, RunCancelledError, RunFailedError


async def their_client(stage: Stage) -> Any:
    from temporalio.client import Client

    return await Client.connect(stage.app.engine._connection.address.host)


def payload(encoding: bytes, data: bytes) -> Any:
    from temporalio.api.common.v1 import Payload
    from temporalio.common import RawValue

    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


@workflow
async def waits_for_go() -> Any:
    return await wait_for_signal("go")


@workflow
async def gathers() -> Any:
    return (await receive([], signals={"go": lambda seen, item: _with(seen, item), "stop": stop})).state


def _with(seen: list[Any], item: Any) -> Any:
    from tenuto import NoReply

    return NoReply([*seen, item])


@pytest.mark.parametrize("data", [b"hello", b"", b"\x81\x01", b"\x80"], ids=["text", "empty", "like ours", "like none"])
async def test_bytes_of_another_client_are_a_bytes_argument(temporal_stage: Stage, data: bytes) -> None:
    stage = temporal_stage
    run = await stage.start(waits_for_go)
    await (await their_client(stage)).get_workflow_handle(run.id).signal("go", data)
    assert await run.result(timeout=LIMIT) == data


async def test_bytes_reach_a_handler_of_receive(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(gathers)
    handle = (await their_client(stage)).get_workflow_handle(run.id)
    await handle.signal("go", b"hello")
    await handle.signal("go", {"a": 1})
    await run.signal("go", b"ours")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [b"hello", {"a": 1}, b"ours"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("go", (b"binary/encrypted", b"x")),
        ("go", (b"json/plain", b"{bad")),
        ("go", (b"json/plain", json.dumps("\ud800").encode())),
        ("anything", (b"", b"x")),
        ("tenuto.cancel-within", (b"json/plain", b'"soon"')),
        ("tenuto.cancel-within", (b"json/plain", b"1e300")),
        ("tenuto.cancel-within", (b"json/plain", b"-1")),
        ("tenuto.cancel-within", (b"binary/plain", b"hello")),
    ],
)
async def test_a_signal_that_cannot_be_read_is_dropped_with_a_warning(
    temporal_stage: Stage, name: str, value: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    stage = temporal_stage
    run = await stage.start(waits_for_go)
    await (await their_client(stage)).get_workflow_handle(run.id).signal(name, payload(*value))
    await run.signal("go", "well")
    assert await run.result(timeout=LIMIT) == "well"
    said = [record.getMessage() for record in caplog.records if record.name == "tenuto.temporal"]
    assert len([line for line in said if run.id in line and repr(name) in line]) == 1, said


async def test_a_dropped_signal_takes_none_of_the_others_with_it(temporal_stage: Stage) -> None:
    """P3: what can be read is consumed, in order"""
    stage = temporal_stage
    run = await stage.start(gathers)
    handle = (await their_client(stage)).get_workflow_handle(run.id)
    for number in range(3):
        await handle.signal("go", number)
        await handle.signal("go", payload(b"binary/encrypted", b"x"))
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [0, 1, 2]


@workflow
async def echoes(value: Any = None) -> Any:
    publish_state(value)
    return value


async def _started_by_another(stage: Stage, workflow: Any, *args: Any) -> Any:
    client = await their_client(stage)
    task_queue = stage.app.engine._connection.address.task_queue
    handle = await client.start_workflow(workflow.id, args=list(args), id=fresh("theirs"), task_queue=task_queue)
    stage.started.append(handle.id)
    return handle


@pytest.mark.parametrize("data", [b"hello", b"", b"\x82\x81"])
async def test_a_start_with_bytes_has_a_bytes_argument(temporal_stage: Stage, data: bytes) -> None:
    stage = temporal_stage
    handle = await _started_by_another(stage, echoes, data)
    assert await stage.app.get(handle.id).result(timeout=LIMIT) == data


@pytest.mark.parametrize("value", [(b"binary/encrypted", b"x"), (b"json/plain", b"{bad")])
async def test_a_start_that_cannot_be_read_fails_the_run(temporal_stage: Stage, value: tuple[bytes, bytes]) -> None:
    stage = temporal_stage
    stage.tasks_may_fail = True  # the server refuses the end of a run for which a signal has just come
    handle = await _started_by_another(stage, echoes, payload(*value))
    await asyncio.gather(handle.signal("go", 1), return_exceptions=True)
    run = stage.app.get(handle.id)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, DecodingError)
    assert "failed the run" in str(failed.value.__cause__)


async def test_what_we_send_is_marked_and_what_was_sent_before_there_was_a_mark_is_read(temporal_stage: Stage) -> None:
    from tenuto.codec.values import dump
    from tenuto.model.definitions import encode_call

    stage = temporal_stage
    client = await their_client(stage)
    handle = await _started_by_another(stage, gathers, payload(b"binary/plain", encode_call((), {})))
    await client.get_workflow_handle(handle.id).signal("go", payload(b"binary/plain", dump(["as before"])))
    await client.get_workflow_handle(handle.id).signal("go", b"theirs")
    run = stage.app.get(handle.id)
    await run.signal("go", "marked")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["as before", b"theirs", "marked"]
    sent = [
        event.workflow_execution_signaled_event_attributes.input.payloads[0].metadata
        for event in (await handle.fetch_history()).events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    assert ["tenuto" in metadata for metadata in sent] == [False, False, True, True]


# --- what they read


@workflow
async def adds_up_for_all(start: Any) -> Any:
    def add(state: list[Any], item: Any) -> Reply[list[Any]]:
        return Reply((len(state), item), [*state, item])

    await sleep("1ms")
    return tuple((await receive([start], updates={"add": add}, signals={"stop": stop})).state)


async def test_who_sent_json_is_answered_in_json(temporal_stage: Stage) -> None:
    stage = temporal_stage
    handle = await _started_by_another(stage, adds_up_for_all, {"a": 1})
    run = stage.app.get(handle.id)
    await stage.until_accepting(run, "add")
    assert await handle.execute_update("add", {"b": 2}) == [1, {"b": 2}]
    assert await run.update("add", 3, timeout=LIMIT) == (2, 3)
    await run.signal("stop")
    assert await handle.result() == [{"a": 1}, {"b": 2}, 3]
    assert await run.result(timeout=LIMIT) == ({"a": 1}, {"b": 2}, 3)  # for us it keeps its types


async def test_a_value_that_json_does_not_have_stays_as_it_is(temporal_stage: Stage) -> None:
    stage = temporal_stage
    handle = await _started_by_another(stage, gathers)
    run = stage.app.get(handle.id)
    await run.signal("go", b"bytes")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [b"bytes"]


async def test_a_run_of_another_client_is_cancelled_like_ours(temporal_stage: Stage) -> None:
    stage = temporal_stage
    handle = await _started_by_another(stage, waits_for_go)
    await handle.cancel()
    with pytest.raises(RunCancelledError):
        await stage.app.get(handle.id).result(timeout=LIMIT)
