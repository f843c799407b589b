"""Runs that are taken from one store into another: what comes along, what stays behind, and who says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import Reply, Task, Tenuto, hook, receive, sleep, spawn, step, wait_for_signal, workflow
from tenuto.errors import RunStateError
from tenuto.host.transfer import ExportedRun, adopt, document_of, export, left_behind, read_document

LIMIT = "20s"
CALLS: list[str] = []


@step(queue="apart")
async def elsewhere() -> int:
    return 1


@step(max_attempts=2, backoff="1h")
async def once_failing() -> None:
    CALLS.append("failed")
    raise ValueError("not yet")


@workflow
async def sleeping(duration: str) -> str:
    await sleep(duration)
    return "woken"


def _same(state: None) -> Reply[None]:
    return Reply(None, state)


@workflow
async def receiving() -> bool:
    return (await receive(None, updates={"add": _same}, timeout="30d")).timed_out


@workflow
async def retrying() -> None:
    await once_failing()


@workflow
async def waiting() -> None:
    await wait_for_signal("go")


@workflow
async def leaving_things_behind(token: str) -> Any:
    payloads = await hook(token)
    Task.run(elsewhere, delay="1h")
    await spawn(waiting, id="the-child")
    return await payloads


async def settled(app: Tenuto, run_id: str) -> None:
    async def rests() -> bool:
        return await app.get(run_id).status() in ("suspended", "scheduled")

    await app.wait_until(rests, LIMIT)


async def taken_from(app: Tenuto, run_id: str) -> ExportedRun:
    """As a file has it."""
    await settled(app, run_id)
    return read_document(document_of(await export(app.store, run_id)))


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Tenuto]:
    async with Tenuto(f"sqlite:///{tmp_path / 'there.db'}", grace=1) as app:
        yield app


@pytest.mark.parametrize(
    ("target", "args", "location"),
    [(sleeping, ("30d",), "sleep"), (receiving, (), "receive"), (retrying, (), "once_failing")],
    ids=["sleep", "timeout", "retry"],
)
async def test_an_imported_run_keeps_its_deadlines(
    app: Tenuto, there: Tenuto, target: Any, args: tuple[Any, ...], location: str
) -> None:
    """R024: a timer that is not there would count as fired."""
    CALLS.clear()
    await app.start(target, *args, id="m")
    run = await taken_from(app, "m")
    (before,) = (await app.get("m").explain()).pending
    await adopt(there.store, run)
    assert await there.get("m").status() == "paused"
    await there.get("m").resume()
    await settled(there, "m")
    (now,) = (await there.get("m").explain()).pending
    assert (now.location, now.what, now.until) == (before.location, before.what, before.until)
    assert before.location.startswith(location)
    assert await there.store.timers("m") == [before.location]
    assert len(CALLS) == (target is retrying)


async def test_an_imported_run_wakes_when_it_would_have_woken(app: Tenuto, there: Tenuto) -> None:
    await app.start(sleeping, "1500ms", id="m")
    await adopt(there.store, await taken_from(app, "m"))
    await there.get("m").resume()
    assert await there.get("m").result(timeout=LIMIT) == "woken"
    (entry,) = await there.get("m").history()
    assert entry.began is not None
    assert entry.ended is not None
    assert (entry.ended - entry.began).total_seconds() >= 1.5


async def test_an_imported_run_that_waits_for_its_start_goes_on_waiting(app: Tenuto, there: Tenuto) -> None:
    await app.start(waiting, id="m", delay="1h")
    run = await taken_from(app, "m")
    await adopt(there.store, run)
    assert await there.get("m").status() == "scheduled"
    await there.get("m").resume()
    assert await there.get("m").status() == "scheduled"
    place, here = await there.store.place("m"), await app.store.place("m")
    assert place is not None
    assert here is not None
    assert place.ready_at == here.ready_at


@pytest.mark.parametrize("resumed", [True, False])
async def test_an_imported_run_begins_by_itself_only_if_it_was_resumed(
    app: Tenuto, there: Tenuto, resumed: bool
) -> None:
    await app.start(sleeping, "0s", id="m", delay="1s")
    await adopt(there.store, await taken_from(app, "m"))
    if resumed:
        await there.get("m").resume()
        assert await there.get("m").result(timeout=LIMIT) == "woken"
        return

    async def is_paused() -> bool:
        return await there.get("m").status() == "paused"

    await there.wait_until(is_paused, LIMIT)


async def test_resuming_an_imported_run_opens_its_hooks(app: Tenuto, there: Tenuto) -> None:
    run = await app.start(leaving_things_behind, "token", id="m")
    taken = await taken_from(app, run.id)
    assert left_behind(taken) == [
        "1 queued tasks stayed behind: give their results with `tenuto supply`",
        "child:waiting waits for run the-child, which stayed behind",
        "1 hooks stayed behind: `tenuto resume` opens them here, with the same tokens",
    ]
    await adopt(there.store, taken)
    await adopt(there.store, taken, "twin")
    await there.get("m").resume()
    with pytest.raises(RunStateError, match="m has its token"):
        await there.get("twin").resume()
    assert await there.get("twin").status() == "paused"
    (child,) = [one for one in (await there.get("m").explain()).pending if one.location == "child:waiting"]
    assert child.what == "waits for run the-child, which is not in this store"
    await there.send_hook("token", "payload")
    assert await there.get("m").result(timeout=LIMIT) == "payload"
    await there.get("twin").resume()  # the token is free now


@workflow
async def failing_with_a_hook() -> None:
    await hook("kept")
    await once_more()


@step(max_attempts=1)
async def once_more() -> None:
    if not CALLS:
        CALLS.append("failed")
        raise ValueError("why")


@workflow
async def holding() -> None:
    await hook("kept")
    await wait_for_signal("go")


async def test_recovering_a_run_opens_its_hooks_again_unless_another_has_the_token(app: Tenuto) -> None:
    CALLS.clear()
    run = await app.start(failing_with_a_hook)
    with pytest.raises(Exception, match="failed"):
        await run.result(timeout=LIMIT)
    other = await app.start(holding)
    await settled(app, other.id)
    with pytest.raises(RunStateError, match="has its token"):
        await run.recover()
    assert await run.status() == "failed"
    await other.terminate()
    await run.recover()
    assert await run.result(timeout=LIMIT) is None
