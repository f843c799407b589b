"""What type checkers infer of the model. Checked by `test_typing.py`, never run."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, assert_type
from uuid import UUID

from tenuto import (
    Async,
    Bound,
    Break,
    ChildHandle,
    Continue,
    ContinueAsNew,
    Failed,
    Finished,
    Handle,
    Hook,
    NoReply,
    Received,
    Reply,
    Retry,
    RunHandle,
    RunInfo,
    Step,
    StepInfo,
    Stop,
    Task,
    TaskHandle,
    Tenuto,
    Update,
    Winner,
    Won,
    Workflow,
    detach,
    hook,
    join,
    loop,
    now,
    parallel,
    partial_state,
    patched,
    race,
    random,
    receive,
    removed,
    run_info,
    side_effect,
    signal,
    sleep,
    spawn,
    step,
    step_info,
    update_state,
    uuid4,
    wait_for_signal,
    workflow,
)

# --- definitions


@step
async def charge(card: str, cents: int) -> str:
    return f"{card}{cents}"


@step
def resize(image: bytes, *, width: int = 10) -> bytes:
    return image[:width]


@step(max_attempts=5, retry=Retry(2), timeout="10s")
async def patient(n: int) -> float:
    return n


@step(queue="heavy")
def heavy(n: int) -> list[int]:
    return [n]


@workflow
async def checkout(card: str, cents: int = 1) -> str:
    return await charge(card, cents)


@workflow(name="poller", queue="slow")
async def poll(seen: int) -> int | ContinueAsNew:
    return ContinueAsNew(seen + 1) if seen < 9 else seen


@checkout.query("status")
def status(state: Any, verbose: bool = False) -> str:
    return str(state) if verbose else ""


class Mailer:
    @staticmethod
    @step
    async def send(to: str) -> bool:
        return bool(to)


assert_type(status(None, True), str)
assert_type(charge.id, str)
assert_type(checkout.bind("a", cents=2), Bound[str])
assert_type(resize.bind(b"", width=3), Bound[bytes])


def check_definitions(c: Step[[str, int], str], p: Workflow[[int], int]) -> None:
    a: Step[[str, int], str] = charge
    b: Workflow[[int], int] = poll
    assert_type(c.options(timeout=3), Step[[str, int], str])
    del a, b, p


# --- calls


async def check_calls() -> None:
    assert_type(await charge("tok", 1), str)
    assert_type(await resize(b"x", width=3), bytes)
    assert_type(await patient(1), float)
    assert_type(await heavy(1), list[int])
    assert_type(await Mailer.send("you"), bool)
    assert_type(await step("named", len, "abc"), int)
    assert_type(await step("named", charge.fn, "abc", 1), Any)
    assert_type(await sleep("1h"), None)
    assert_type(now(), datetime)
    assert_type(random(), Random)
    assert_type(uuid4(), UUID)
    assert_type(await side_effect(lambda: 5), int)
    assert_type(patched("p"), bool)
    assert_type(removed("a", "step"), None)
    assert_type(run_info(), RunInfo)
    assert_type(step_info(), StepInfo)
    assert_type(await signal("run", "name", 1, "x"), None)
    assert_type(await wait_for_signal("go", timeout=3), Any)


async def plain(n: int) -> str:
    return str(n)


async def check_named() -> None:
    assert_type(await step("plain", plain, 3, max_attempts=2), str)


# --- concurrency


async def other() -> str:
    return ""


async def check_concurrency() -> None:
    assert_type(await parallel([partial(charge, "a", 1), partial(charge, "b", 2)]), list[str | Failed])
    assert_type(await parallel([charge("a", 1), charge("b", 1)], limit=2), list[str | Failed])
    assert_type(await join({"x": other, "y": other}), dict[str, str])
    won = await race({"x": other})
    assert_type(won, Winner[str])
    name, value = won
    assert_type(name, str)
    assert_type(value, str)


async def check_tasks() -> None:
    one = Task.run(charge, "a", 1, queue="q", delay="1s")
    assert_type(one, Handle[str])
    assert_type(Task.run(resize.bind(b"x", width=2)), Handle[bytes])
    assert_type(Task.run("charge", 1, 2), Handle[Any])
    assert_type(Task.delay(3), Handle[None])
    assert_type(await one, str)
    assert_type(one.done, bool)
    assert_type(await Task.all([one, one]), list[str])
    assert_type(await Task.any([one], cancel_losers=True), Won[str])
    assert_type(await Task.race([one]), Finished[str])


# --- loops


async def check_loops() -> None:
    async def body(seen: int) -> Continue[int] | Break[str]:
        return Break("done") if seen else Continue(seen + 1)

    assert_type(await loop("l", 0, body), str)

    async def endless(state: None) -> Break[None] | None:
        return Break() if now() else state

    assert_type(await loop("e", None, endless), None)


# --- messages


class Stock:
    count = 0


async def check_receive() -> None:
    def add(stock: Stock, n: int) -> Reply[Stock]:
        return Reply(n, stock)

    async def take(stock: Stock, n: int) -> Reply[Stock] | Stop[Stock]:
        return Reply(n, stock) if n else Stop(stock)

    def later(stock: Stock) -> Async[Stock]:
        return Async(other, stock)

    def note(stock: Stock, text: str) -> NoReply[Stock]:
        return NoReply(stock)

    def validate(stock: Stock, n: int) -> None: ...

    received = await receive(
        Stock(),
        updates={"add": add, "take": Update(take, validate), "later": later},
        signals={"note": note},
        timeout="1h",
        checkpoint_every=10,
    )
    assert_type(received, Received[Stock])
    stock, timed_out = received
    assert_type(stock, Stock)
    assert_type(timed_out, bool)

    def change(stock: Stock) -> tuple[int, Stock]:
        return stock.count, stock

    assert_type(update_state(change), int)
    assert_type(partial_state(CancelledError()), Any)


# --- other runs


async def check_children() -> None:
    child = await spawn(checkout, "a", 2, id="c", if_exists="attach")
    assert_type(child, ChildHandle[str])
    assert_type(await child, str)
    assert_type(await child.signal("go", 1), None)
    assert_type(await spawn(checkout.bind("a", cents=3), name="x"), ChildHandle[str])
    assert_type(await spawn(poll, 1), ChildHandle[int])
    assert_type(await spawn(checkout, "a"), ChildHandle[str])  # a default left out
    assert_type(await detach(checkout, "a", 2), str)
    assert_type(await Task.all([child]), list[str])
    opened = await hook()
    assert_type(opened, Hook)
    async for payload in opened:
        assert_type(payload, Any)


def check_coroutines() -> None:
    pending: Coroutine[Any, Any, str] = charge("a", 1)
    pending.close()


# --- what must not pass


async def check_mistakes() -> None:
    await charge("tok", "1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await spawn(checkout, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Task.run(charge, 1, 1)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    checkout.bind(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    removed("a", "stepp")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    step(max_attempt=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


# --- the app: arguments and results are inferred through start, update, query and handlers


@workflow
async def typed_order(sku: str, count: int) -> list[str]:
    return [sku] * count


@typed_order.query("size")
def typed_size(state: Any, factor: int) -> int:
    return factor


async def through_the_app(app: Tenuto) -> None:
    run = await app.start(typed_order, "violin", 2)
    assert_type(run, RunHandle[list[str]])
    assert_type(await run.result(timeout="1s"), list[str])
    assert_type(await run.query(typed_size, 3), int)
    assert_type(await app.start(typed_order.bind(sku="bow", count=1)), RunHandle[list[str]])
    assert_type(await app.start("typed_order", 1), RunHandle[Any])
    await app.start(typed_order, "violin", "two")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType]
    await run.query(typed_size, "three")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def through_a_queue(app: Tenuto) -> None:
    task = await app.enqueue(charge, "tok", 5, queue="slow", priority=2)
    assert_type(task, TaskHandle[str])
    assert_type(await task.result(timeout="1s"), str)
    assert_type(await app.enqueue(heavy, 3), TaskHandle[list[int]])
    assert_type(await app.enqueue(resize.bind(b"", width=3), key="k"), TaskHandle[bytes])
    assert_type(await app.enqueue("charge", 1), TaskHandle[Any])
    assert_type(await app.each(workflow="typed_order").cancel(), int)
    await app.enqueue(charge, "tok", "five")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType]
