"""One run's damage is that run's: what is read of several runs is kept apart, and the others go on (R080)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import cbor2
import pytest

from tenuto import Encryption, Tenuto, step, wait_for_signal, workflow
from tenuto.codec.records import decode_mail, encode_mail
from tenuto.codec.rows import mail_key
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.memory import MemoryStore

LIMIT = "20s"
KEY = {"k": b"k" * 32}
RUNS = ["r0", "r1", "r2", "r3", "r4"]
HEALTHY = [run_id for run_id in RUNS if run_id != "r2"]
Edit = Callable[..., list[tuple[Any, ...]]]

GOOD = encode_mail(Mail(MailKind.SIGNAL, "go", None, b"\x81\x02", None, 0, 1_700_000_000_000))
DAMAGE = {
    "of a later version": b"\x02\x00" + GOOD[2:],
    "cut short": GOOD[:-3],
}
NO_CANCEL = encode_mail(Mail(MailKind.CANCEL, "", None, b"\x82\x01\x61x", None, 0, 1_700_000_000_000))
NO_PLACE = encode_mail(Mail(MailKind.RESULT, "~~", None, b"\x01", None, 0, 1_700_000_000_000))


@workflow(name="isolation_waits")
async def waits() -> Any:
    return await wait_for_signal("go")


@step(queue="elsewhere")
async def fetch(n: int) -> int:
    return n


@workflow(name="isolation_asks")
async def asks(n: int) -> int:
    return await fetch(n)


async def reached(app: Tenuto, run_id: str, status: str) -> None:
    async def there() -> bool:
        return await app.get(run_id).status() == status

    await app.wait_until(there, LIMIT)


async def paused_with_a_signal(app: Tenuto) -> None:
    """Five runs that wait, and then are to be claimed together, each with a signal in its inbox."""
    for run_id in RUNS:
        await app.start(waits, id=run_id)
        await reached(app, run_id, "suspended")
    for n, run_id in enumerate(RUNS):
        await app.get(run_id).pause()
        await app.get(run_id).signal("go", n)


async def only_the_second_is_parked(app: Tenuto, code: str) -> None:
    await asyncio.gather(*[app.get(run_id).resume() for run_id in RUNS])
    assert [await app.get(run_id).result(timeout=LIMIT) for run_id in HEALTHY] == [0, 1, 3, 4]
    await reached(app, "r2", "parked")
    (summary,) = [run async for run in app.runs(status="parked")]
    assert summary.reason is not None
    assert code in summary.reason


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_signal_parks_its_run_and_the_others_of_the_claim_end(
    damage: bytes, lasting_url: str, edit: Edit
) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        await paused_with_a_signal(app)
    edit("UPDATE workflow_execution_context SET value = ? WHERE workflow_id = 'r2' AND key = ?", damage, mail_key(1))
    async with Tenuto(lasting_url, grace=1) as app:
        await only_the_second_is_parked(app, "TN306")


async def test_a_damaged_signal_in_memory_parks_its_run_and_the_others_end() -> None:
    async with Tenuto("memory://", grace=1) as app:
        await paused_with_a_signal(app)
        assert isinstance(app.store, MemoryStore)
        app.store._shelf.run("r2").table.put(mail_key(1), DAMAGE["cut short"])
        await only_the_second_is_parked(app, "TN306")


@pytest.mark.parametrize("damage", [b"", NO_CANCEL, NO_PLACE], ids=["empty", "no cancel", "no place"])
async def test_a_damaged_row_of_the_inbox_parks_its_run_and_the_others_of_the_claim_end(
    damage: bytes, lasting_url: str, edit: Edit
) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        await paused_with_a_signal(app)
        await app.store.send("r2", Mail(MailKind.UPDATE, "u", "u1", b"\x80", None, 0, await app.store.now()))
    edit("UPDATE workflow_inbox SET data = ? WHERE workflow_id = 'r2'", damage)
    async with Tenuto(lasting_url, grace=1) as app:
        await only_the_second_is_parked(app, "TN306")


async def test_a_signal_under_a_key_that_is_no_number_parks_its_run_only(lasting_url: str, edit: Edit) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        await paused_with_a_signal(app)
    edit(
        "UPDATE workflow_execution_context SET key = ? WHERE workflow_id = 'r2' AND key = ?",
        b"\x15\x03\x02" + b"zzzzzzzzzzzzzzzz" + b"\x00",
        mail_key(1),
    )
    async with Tenuto(lasting_url, grace=1) as app:
        await only_the_second_is_parked(app, "TN306")


async def test_a_parked_run_goes_on_once_its_mail_can_be_read(lasting_url: str, edit: Edit) -> None:
    """As after a rolling release: the newer worker reads what the older one could not."""
    async with Tenuto(lasting_url, grace=1) as app:
        await paused_with_a_signal(app)
    replace = "UPDATE workflow_execution_context SET value = ? WHERE workflow_id = 'r2' AND key = ?"
    edit(replace, DAMAGE["of a later version"], mail_key(1))
    async with Tenuto(lasting_url, grace=1) as app:
        await only_the_second_is_parked(app, "TN306")
    edit(replace, GOOD, mail_key(1))
    async with Tenuto(lasting_url, grace=1) as app:
        await app.get("r2").resume()
        assert await app.get("r2").result(timeout=LIMIT) == 2


async def test_attributes_that_are_damaged_keep_no_run_from_going_on(lasting_url: str, edit: Edit) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        await paused_with_a_signal(app)
    damage = "{" if lasting_url.startswith("sqlite") else "[1]"
    edit("UPDATE executions SET attributes = ? WHERE id = 'r2'", damage)
    async with Tenuto(lasting_url, grace=1) as app:
        await asyncio.gather(*[app.get(run_id).resume() for run_id in RUNS])
        assert [await app.get(run_id).result(timeout=LIMIT) for run_id in RUNS] == [0, 1, 2, 3, 4]


# --- the same of sealed values


async def paused_with_a_result(url: str) -> None:
    """Five runs, paused, whose tasks have ended meanwhile: the results lie in their inboxes."""
    async with Tenuto(url, codec=Encryption(KEY), queues=["default"], grace=1) as app:
        for n, run_id in enumerate(RUNS):
            await app.start(asks, n, id=run_id)
            await reached(app, run_id, "suspended")
            await app.get(run_id).pause()
    async with Tenuto(url, codec=Encryption(KEY), queues=["elsewhere"], grace=1) as app:

        async def ended() -> bool:
            tasks = [task for run_id in RUNS for task in await app.store.open_tasks(run_id)]
            return not tasks

        await app.wait_until(ended, LIMIT)


def sealed_with_origin(origin: object) -> bytes:
    content = cbor2.dumps(["k", b"n" * 12, b"hidden", origin])
    return b"\xd9\x74\x07\x82" + cbor2.dumps("aes-gcm") + cbor2.dumps(content)


@pytest.mark.parametrize("origin", [["task", 5, b"value"], ["task", "x"], None])
async def test_a_sealed_result_with_a_malformed_origin_parks_its_run_only(
    origin: object, lasting_url: str, edit: Edit
) -> None:
    await paused_with_a_result(lasting_url)
    ((data,),) = edit("SELECT data FROM workflow_inbox WHERE workflow_id = 'r2' AND kind = 'result'")
    damaged = encode_mail(decode_mail(data)._replace(payload=sealed_with_origin(origin)))
    edit("UPDATE workflow_inbox SET data = ? WHERE workflow_id = 'r2' AND kind = 'result'", damaged)
    async with Tenuto(lasting_url, codec=Encryption(KEY), grace=1) as app:
        await only_the_second_is_parked(app, "TN307")


async def test_an_unreadable_schedule_is_listed_and_keeps_no_other_from_firing(lasting_url: str, edit: Edit) -> None:
    codec = Encryption(KEY)
    async with Tenuto(lasting_url, codec=codec, worker=False) as client:
        for name in ("bad", "good"):
            await client.schedule(name, asks.bind(1), every="1s")
    edit("UPDATE schedules SET args = ? WHERE name = 'bad'", sealed_with_origin(["task", 5, b"value"]))
    async with Tenuto(lasting_url, codec=codec, grace=1) as app:
        assert [schedule.name async for schedule in app.schedules()] == ["bad", "good"]

        async def fired() -> bool:
            return any([run.id.startswith("good@") async for run in app.runs()])

        await app.wait_until(fired, LIMIT)
        assert not any([run.id.startswith("bad@") async for run in app.runs()])
