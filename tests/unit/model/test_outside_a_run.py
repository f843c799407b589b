"""Every call of the model refuses to work where no run is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import tenuto
from tenuto.codec.values import dump
from tenuto.errors import NotInWorkflowError, QueryFailedError, QueryNotFoundError, ReadOnlyError
from tenuto.model.state import answer_query
from tenuto.model.steps import Attempt, Subject, run_attempt


async def _branch() -> None: ...


@tenuto.step
async def charge(card: str, cents: int) -> str:
    return f"{card}:{cents}"


@tenuto.workflow
async def sell(card: str) -> str:
    return await charge(card, 1)


CALLS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: tenuto.sleep(1),
    "sleep_until": lambda: tenuto.sleep_until(datetime.now(UTC)),
    "now": tenuto.now,
    "random": tenuto.random,
    "uuid4": tenuto.uuid4,
    "side_effect": lambda: tenuto.side_effect(int),
    "patched": lambda: tenuto.patched("p"),
    "deprecate_patch": lambda: tenuto.deprecate_patch("p"),
    "removed": lambda: tenuto.removed("a", "step"),
    "rollback_checkpoint": lambda: tenuto.rollback_checkpoint("a"),
    "loop": lambda: tenuto.loop("l", 0, _branch),  # type: ignore[arg-type]
    "wait_for_signal": lambda: tenuto.wait_for_signal("s"),
    "receive": lambda: tenuto.receive(0, timeout=1),
    "update_state": lambda: tenuto.update_state(lambda state: (None, state)),
    "publish_state": lambda: tenuto.publish_state(1),
    "signal": lambda: tenuto.signal("run", "s"),
    "parallel": lambda: tenuto.parallel([_branch()]),
    "join": lambda: tenuto.join({"a": _branch()}),
    "race": lambda: tenuto.race({"a": _branch()}),
    "shield": tenuto.shield,
    "Task.run": lambda: tenuto.Task.run(charge, "a", 1),
    "Task.delay": lambda: tenuto.Task.delay(1),
    "Task.all": lambda: tenuto.Task.all([]),
    "spawn": lambda: tenuto.spawn(sell, "a"),
    "detach": lambda: tenuto.detach(sell, "a"),
    "hook": tenuto.hook,
    "run_info": tenuto.run_info,
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_model_call_outside_a_run_is_refused_at_the_call(call: str) -> None:
    with pytest.raises(NotInWorkflowError, match=call.split(".")[-1]):
        CALLS[call]()


@pytest.mark.parametrize("call", CALLS)
async def test_a_model_call_in_a_step_body_is_refused_at_the_call(call: str) -> None:
    @tenuto.step
    async def body() -> None:
        CALLS[call]()

    with pytest.raises(NotInWorkflowError, match="step"):
        await run_attempt(body.call((), {}), Attempt(Subject("body", 1, "key"), "r"))


@pytest.mark.parametrize("call", CALLS)
def test_a_model_call_in_a_query_is_refused(call: str) -> None:  # M023
    def ask(state: object) -> None:
        CALLS[call]()

    with pytest.raises(QueryFailedError) as raised:
        answer_query(sell, None, ask)
    assert isinstance(raised.value.__cause__, ReadOnlyError)


def test_step_info_and_heartbeat_need_an_attempt() -> None:
    for call in (tenuto.step_info, tenuto.heartbeat):
        with pytest.raises(NotInWorkflowError):
            call()


# --- attempts


async def test_a_step_body_knows_its_attempt_and_keeps_details_for_the_next() -> None:  # M007
    kept: list[bytes] = []

    @tenuto.step
    async def work(rows: int) -> Any:
        tenuto.heartbeat({"row": rows})
        info = tenuto.step_info()
        return info.name, info.run_id, info.attempt, info.idempotency_key, info.details, info.cancelled()

    attempt = Attempt(Subject("work", 2, "r-1:0:work"), "r-1", details=dump({"row": 40}), on_heartbeat=kept.append)
    seen = await run_attempt(work.call((41,), {}), attempt)
    assert seen == ("work", "r-1", 2, "r-1:0:work", {"row": 40}, False)
    assert kept == [dump({"row": 41})]


async def test_a_def_step_runs_in_a_thread_and_sees_its_attempt_there() -> None:
    import threading

    @tenuto.step
    def work() -> tuple[bool, int]:
        return threading.current_thread() is not threading.main_thread(), tenuto.step_info().attempt

    assert await run_attempt(work.call((), {}), Attempt(Subject("work", 1, "key"), None)) == (True, 1)


async def test_a_heartbeat_raises_once_the_step_was_asked_to_stop() -> None:
    import asyncio

    attempt = Attempt(Subject("work", 1, "key"), None)
    attempt.cancelled = True

    @tenuto.step
    async def work() -> None:
        assert tenuto.step_info().cancelled()
        tenuto.heartbeat()

    with pytest.raises(asyncio.CancelledError):
        await run_attempt(work.call((), {}), attempt)


async def test_a_step_in_a_step_body_is_a_plain_call() -> None:  # M005
    @tenuto.step
    async def outer() -> str:
        return await charge("tok", 1)

    assert await run_attempt(outer.call((), {}), Attempt(Subject("outer", 1, "key"), "r")) == "tok:1"


# --- queries


def test_a_query_gets_the_snapshot_or_none() -> None:  # M021
    @sell.query("status")
    def status(state: Any, prefix: str = "") -> str:
        return prefix + ("nothing" if state is None else str(state["status"]))

    assert answer_query(sell, None, "status") == "nothing"
    assert answer_query(sell, dump({"status": "packing"}), status, ["> "]) == "> packing"


def test_an_unknown_query_lists_the_known_ones() -> None:
    @sell.query("progress")
    def progress(state: Any) -> Any:
        return state

    with pytest.raises(QueryNotFoundError, match="progress"):
        answer_query(sell, None, "progres")


def test_a_raising_query_is_a_query_failed_error_with_its_cause() -> None:  # M023
    def broken(state: Any) -> Any:
        return state["nothing"]

    with pytest.raises(QueryFailedError) as raised:
        answer_query(sell, dump({}), broken)
    assert isinstance(raised.value.__cause__, KeyError)


# --- the surface


def test_every_public_name_has_a_docstring_and_is_listed_once() -> None:
    assert len(set(tenuto.__all__)) == len(tenuto.__all__)
    undocumented = [
        name
        for name in tenuto.__all__
        if (inspect.isfunction(found := getattr(tenuto, name)) or inspect.isclass(found)) and not inspect.getdoc(found)
    ]
    assert undocumented == []
