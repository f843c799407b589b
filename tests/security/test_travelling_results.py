"""A sealed result is opened for the run and the place that asked for it, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenuto import ContinueAsNew, Encryption, Task, Tenuto, spawn, step, wait_for_signal, workflow
from tenuto.codec.records import decode_mail, encode_mail

LIMIT = "20s"
CODEC = Encryption({"k": b"k" * 32})
Edit = Callable[..., list[tuple[Any, ...]]]


@step(queue="elsewhere")
async def ask(who: str) -> str:
    return f"secret of {who}"


@step(queue="elsewhere", max_attempts=1)
async def fail(who: str) -> str:
    raise ValueError(f"secret of {who}")


@workflow(name="travel_asks")
async def asks(who: str) -> str:
    return await ask(who)


@workflow(name="travel_fails")
async def fails(who: str) -> str:
    try:
        return await fail(who)
    except Exception as error:  # noqa: BLE001  # whatever a user's code catches
        return str(error.__cause__)


@workflow(name="travel_asks_twice")
async def asks_twice(who: str) -> list[str]:
    return [await ask(f"{who} 1"), await ask(f"{who} 2")]


@workflow(name="travel_asks_by_key")
async def asks_by_key(who: str, key: str) -> str:
    return str(await Task.run(ask, who, key=key))


@workflow(name="travel_is_followed")
async def is_followed(text: str) -> str:
    return f"{text} {await wait_for_signal('go')}"


@workflow(name="travel_follows")
async def follows(run_id: str) -> str:
    return str(await (await spawn(is_followed, "", id=run_id, if_exists="attach")))


@workflow(name="travel_asks_in_a_chain")
async def asks_in_a_chain(n: int) -> Any:
    found = await ask(f"link {n}")
    await wait_for_signal("go")
    return ContinueAsNew(n + 1) if n == 0 else found


async def reached(app: Tenuto, run_id: str, status: str) -> None:
    async def there() -> bool:
        return await app.get(run_id).status() == status

    await app.wait_until(there, LIMIT)


async def queued(app: Tenuto, task_id: str) -> None:
    async def there() -> bool:
        return [task.id for task in await app.store.open_tasks("r")] == [task_id]

    await app.wait_until(there, LIMIT)


async def paused(url: str, *runs: tuple[Any, str, tuple[Any, ...]]) -> None:
    """Runs that wait for their tasks, paused; nobody serves the queue."""
    async with Tenuto(url, codec=CODEC, queues=["default"], grace=1) as app:
        for target, run_id, args in runs:
            await app.start(target, *args, id=run_id)
            await reached(app, run_id, "suspended")
            await app.get(run_id).pause()


async def perform(url: str, *run_ids: str) -> None:
    """Runs the tasks; their results are put into the inboxes, and nobody takes them out."""
    async with Tenuto(url, codec=CODEC, queues=["elsewhere"], grace=1) as app:

        async def ended() -> bool:
            return not [task for run_id in run_ids for task in await app.store.open_tasks(run_id)]

        await app.wait_until(ended, LIMIT)


def bring(edit: Edit, giver: str, taker: str) -> None:
    """Puts the result in one run's inbox into another's."""
    select = "SELECT data FROM workflow_inbox WHERE workflow_id = ? AND kind = 'result'"
    ((given,),), ((taken,),) = edit(select, giver), edit(select, taker)
    mail = decode_mail(given)
    swapped = encode_mail(decode_mail(taken)._replace(payload=mail.payload, error=mail.error))
    edit("UPDATE workflow_inbox SET data = ? WHERE workflow_id = ? AND kind = 'result'", swapped, taker)


async def is_refused(url: str, run_id: str) -> None:
    async with Tenuto(url, codec=CODEC, grace=1) as app:
        await app.get(run_id).resume()
        await reached(app, run_id, "parked")
        (summary,) = [run async for run in app.runs(status="parked")]
        assert "TN307" in (summary.reason or "")
        assert "belongs elsewhere" in (summary.reason or "")
        assert "secret" not in (summary.reason or "")


@pytest.mark.parametrize("target", [asks, fails], ids=["value", "error"])
async def test_the_result_of_another_runs_task_is_refused(target: Any, lasting_url: str, edit: Edit) -> None:
    await paused(lasting_url, (target, "alice", ("alice",)), (target, "bob", ("bob",)))
    await perform(lasting_url, "alice", "bob")
    bring(edit, "alice", "bob")
    await is_refused(lasting_url, "bob")
    async with Tenuto(lasting_url, codec=CODEC, grace=1) as app:
        await app.get("alice").resume()
        assert "secret of alice" in str(await app.get("alice").result(timeout=LIMIT))


async def test_the_result_of_another_place_of_the_same_run_is_refused(lasting_url: str, edit: Edit) -> None:
    await paused(lasting_url, (asks_twice, "r", ("x",)))
    await perform(lasting_url, "r")
    ((data,),) = edit("SELECT data FROM workflow_inbox WHERE workflow_id = 'r' AND kind = 'result'")
    moved = decode_mail(data)
    assert moved.name == "ask"
    async with Tenuto(lasting_url, codec=CODEC, queues=["default"], grace=1) as app:
        await app.get("r").resume()
        await queued(app, "r:0:ask#2")
        await reached(app, "r", "suspended")
        await app.get("r").pause()
    await perform(lasting_url, "r")
    select = "SELECT data FROM workflow_inbox WHERE workflow_id = 'r' AND kind = 'result'"
    ((second,),) = edit(select)
    edit(
        "UPDATE workflow_inbox SET data = ? WHERE workflow_id = 'r' AND kind = 'result'",
        encode_mail(decode_mail(second)._replace(payload=moved.payload)),
    )
    await is_refused(lasting_url, "r")


async def test_a_shared_key_gives_both_runs_the_result_and_another_key_does_not(lasting_url: str, edit: Edit) -> None:
    """What has a key may answer for others that asked under it, and for nobody who asked under another."""
    await paused(
        lasting_url,
        (asks_by_key, "one", ("first", "k")),
        (asks_by_key, "two", ("never run", "k")),
        (asks_by_key, "other", ("other", "another k")),
    )
    await perform(lasting_url, "one", "two", "other")
    async with Tenuto(lasting_url, codec=CODEC, queues=["default"], grace=1) as app:
        await app.get("two").resume()
        assert await app.get("two").result(timeout=LIMIT) == "secret of first"
    bring(edit, "one", "other")
    await is_refused(lasting_url, "other")


async def test_a_run_that_follows_another_takes_that_ones_result_only(lasting_url: str, edit: Edit) -> None:
    async with Tenuto(lasting_url, codec=CODEC, grace=1) as app:
        for run_id in ("a", "b"):
            await app.start(is_followed, f"secret of {run_id}", id=run_id)
            await reached(app, run_id, "suspended")
            await app.start(follows, run_id, id=f"follows {run_id}")
            await reached(app, f"follows {run_id}", "suspended")
            await app.get(f"follows {run_id}").pause()
        for run_id in ("a", "b"):
            await app.get(run_id).signal("go", "now")
            await app.get(run_id).result(timeout=LIMIT)
    bring(edit, "follows a", "follows b")
    await is_refused(lasting_url, "follows b")
    async with Tenuto(lasting_url, codec=CODEC, grace=1) as app:
        await app.get("follows a").resume()
        assert await app.get("follows a").result(timeout=LIMIT) == "secret of a now"


async def test_a_result_of_an_earlier_run_of_the_chain_is_not_taken_for_a_later_ones(
    lasting_url: str, edit: Edit
) -> None:
    await paused(lasting_url, (asks_in_a_chain, "r", (0,)))
    await perform(lasting_url, "r")
    select = "SELECT data FROM workflow_inbox WHERE workflow_id = 'r' AND kind = 'result'"
    ((first,),) = edit(select)
    async with Tenuto(lasting_url, codec=CODEC, queues=["default"], grace=1) as app:
        await app.get("r").resume()
        await app.get("r").signal("go")
        await queued(app, "r:1:ask")
        beneath: Any = app.store
        await beneath._store.send("r", decode_mail(first))  # as it was: past the codec
        await app.get("r").signal("go")
    async with Tenuto(lasting_url, codec=CODEC, grace=1) as app:
        assert await app.get("r").result(timeout=LIMIT) == "secret of link 1"
