"""Updates as their senders see them: every one of them gets a definite answer (P8), and one that says why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Reject, Reply, Stop, Tenuto, Update, receive, wait_for_signal, workflow
from tenuto.errors import UpdateFailedError, UpdateRejectedError
from tenuto.testing import Engine

LIMIT = "20s"


def _raise(state: int) -> Reply[int]:
    raise ValueError("out of paper")


def _refuse(state: int, amount: int) -> None:
    raise Reject(f"{amount} is too much")


def _add(state: int, amount: int) -> Reply[int]:
    return Reply(state + amount, state + amount)


@workflow
async def taking() -> Any:
    state, _ = await receive(
        0, updates={"print": _raise, "add": Update(_add, _refuse), "end": lambda state: Stop(state, reply="ended")}
    )
    return state


@workflow
async def deaf() -> None:
    await wait_for_signal("go")


async def ask(app: Tenuto, run_id: str, name: str, *args: object, **options: Any) -> Any:
    """Its value, or the error it raised."""
    try:
        return await app.get(run_id).update(name, *args, timeout=LIMIT, **options)
    except (UpdateRejectedError, UpdateFailedError) as error:
        return error


async def has_mail(app: Tenuto, run_id: str) -> None:
    async def stored() -> bool:
        return bool(await app.store.mail(run_id, 0))

    await app.wait_until(stored, LIMIT)


async def test_two_senders_of_one_update_are_both_told_that_its_run_was_cancelled(url: str) -> None:
    """R079: a proxy that repeats a request must not take the first one's answer away."""
    async with Tenuto(url, worker=False) as app:
        run = await app.start(taking)
        first = asyncio.create_task(ask(app, run.id, "end", id="u1"))
        await has_mail(app, run.id)
        await run.cancel()
        second = await ask(app, run.id, "end", id="u1")
        answers = [await first, second, await ask(app, run.id, "end", id="u1")]
    assert [answer.why for answer in answers] == ["closed"] * 3


async def test_two_processes_that_send_one_update_are_both_answered(lasting_url: str) -> None:
    """R079."""
    async with Tenuto(lasting_url, worker=False) as one, Tenuto(lasting_url, worker=False) as two:
        run = await one.start(taking)
        first = asyncio.create_task(ask(one, run.id, "end", id="u1"))
        await has_mail(two, run.id)
        await two.get(run.id).cancel()
        answers = [await ask(two, run.id, "end", id="u1"), await first]
    assert [answer.why for answer in answers] == ["closed"] * 2


async def test_of_many_who_send_one_refused_update_none_waits_for_ever(app: Tenuto) -> None:
    """Each new try removes the answer of the one before, under the eyes of those who wait for it."""
    run = await app.start(taking)
    answers = await asyncio.gather(*(ask(app, run.id, "add", 9, id="u1", retry_for=LIMIT) for _ in range(8)))
    assert {answer.reason for answer in answers} == {"9 is too much"}


async def test_an_update_that_a_terminated_run_had_not_read_is_answered(app: Tenuto) -> None:
    run = await app.start(deaf, delay="1h")
    asked = asyncio.create_task(ask(app, run.id, "end", id="u1"))
    await has_mail(app, run.id)
    await run.terminate()
    assert (await asked).why == "closed"


async def test_the_error_of_an_update_says_which_why_and_what_to_do(app: Tenuto) -> None:
    run, other = await app.start(taking), await app.start(deaf)
    refused = await ask(app, run.id, "add", 9, retry_for=LIMIT)
    failed = await ask(app, run.id, "print", retry_for=LIMIT)
    assert str(refused) == "update 'add' rejected (validator): 9 is too much"
    assert str(failed) == "update 'print' failed (handler): ValueError: out of paper"
    assert isinstance(failed.__cause__, ValueError)

    async def waits() -> bool:
        return await other.status() == "suspended"

    await app.wait_until(waits, LIMIT)
    assert "retry_for=" in str(await ask(app, other.id, "add", 1))
    assert "retry_for=" in str(await ask(app, other.id, "add", 1, id="again"))


# --- the test engine


async def test_the_test_engine_answers_both_senders_of_one_update() -> None:
    """R079 on virtual time."""
    engine = Engine()
    run = await engine.start(taking)
    with pytest.raises(UpdateRejectedError) as refused:
        await run.update("add", 9, id="u1")
    await run.update("end")
    assert await run.result() == 0
    with pytest.raises(UpdateRejectedError) as again:
        await run.update("add", 9, id="u1")  # its run has ended, and the answer is kept
    assert [str(error.value) for error in (refused, again)] == ["update 'add' rejected (validator): 9 is too much"] * 2
    with pytest.raises(UpdateFailedError, match=r"update 'print' failed \(handler\): ValueError: out of paper"):
        await (await engine.start(taking)).update("print")
    engine.close()
