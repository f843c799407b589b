"""Workflows that kill their own process at a marked point, and the worker process that serves them.

    python tests/acceptance/crashing.py        # then one line on its input: {"url": …, "marks": …}

A point kills only the first process that passes it. Which have been passed, and what was executed how often, is kept
in files of the folder `marks`, outside the store: what really happened, whatever history says.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from asyncio import CancelledError
from contextvars import Context
from pathlib import Path
from typing import Any

from tenuto import (
    Async,
    ContinueAsNew,
    NoReply,
    Reject,
    Reply,
    Stop,
    Tenuto,
    Update,
    detach,
    parallel,
    publish_state,
    receive,
    run_info,
    side_effect,
    step,
    step_info,
    update_state,
    wait_for_signal,
    workflow,
)
from tenuto import signal as send_signal

MARKS = Path()


# --- marks; workflow code calls these in a context of their own, where files may be touched


def _note(name: str, text: str) -> None:
    with (MARKS / f"{name}.log").open("a", encoding="utf-8") as log:
        log.write(f"{text}\n")


def _die(name: str) -> None:
    mark = MARKS / f"{name}.died"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _has(name: str) -> bool:
    return (MARKS / name).exists()


def note(name: str, text: str = "x") -> None:
    """One more execution of this."""
    Context().run(_note, name, text)


def die_once(name: str) -> None:
    """The first process that comes here ends here, as if its power had been cut."""
    Context().run(_die, name)


def has(name: str) -> bool:
    """Whether there is a file of this name among the marks."""
    return Context().run(_has, name)


# --- steps


@step(name="crash-work")
async def work(name: str) -> str:
    note(name)
    return f"{name} done"


@step(name="crash-deadly")
async def deadly(name: str) -> str:
    """Does its work, and dies before anyone hears of it."""
    note(name, step_info().idempotency_key)
    die_once(name)
    return f"{name} done"


@step(name="crash-on-command")
async def deadly_on_command(name: str) -> str:
    """Works until the file `now` is there, then dies."""
    note(name)
    while not has("now"):  # another process makes it
        await asyncio.sleep(0.01)
    die_once("now")
    return f"{name} done"


# --- workflows, each for one row of the table


@workflow(name="crash-start")
async def starting(text: str) -> str:
    note("start")
    die_once("start")
    return text


@workflow(name="crash-signals")
async def buffering() -> list[Any]:
    await wait_for_signal("go")
    die_once("signals")
    return [await wait_for_signal("s") for _ in range(3)]


def _grow(state: int, by: int) -> Reply[int]:
    return Reply(state + by, state + by)


def _stop(state: Any) -> Stop[Any]:
    return Stop(state)


@workflow(name="crash-unread-update")
async def entering() -> int:
    await wait_for_signal("go")
    die_once("unread")
    return (await receive(1, updates={"grow": _grow}, signals={"stop": _stop})).state


def _only_before_the_crash(state: int) -> None:
    note("validator")
    if has("admitting.died"):
        raise Reject("too late")


def _admitted(state: int) -> Reply[int]:
    note("handler")
    die_once("admitting")
    return Reply("never heard", state + 1)


@workflow(name="crash-admitting")
async def admitting() -> int:
    return (
        await receive(0, updates={"take": Update(_admitted, _only_before_the_crash)}, signals={"stop": _stop})
    ).state


def _validated(state: int) -> None:
    note("validator")
    if has("second.died"):
        raise Reject("a validator is not asked again")


async def _in_steps(state: int) -> Reply[int]:
    first = await work("first")
    return Reply([first, await deadly("second")], state + 1)


@workflow(name="crash-accepted")
async def accepting() -> int:
    return (await receive(0, updates={"take": Update(_in_steps, _validated)}, signals={"stop": _stop})).state


async def _last(state: int) -> Stop[int]:
    return Stop(state + 1, reply=await work("handled"))


@workflow(name="crash-replied")
async def replying() -> str:
    await receive(0, updates={"last": _last})
    return await deadly("after")  # begun by the commit that holds the reply


@workflow(name="crash-step")
async def stepping() -> str:
    return await deadly("step")


def _draw() -> str:
    drawn = secrets.token_hex(8)
    note("drawn", drawn)
    die_once("drawn")
    return drawn


@workflow(name="crash-side-effect")
async def drawing() -> str:
    drawn = await side_effect(_draw)
    await deadly("later")
    return drawn


@workflow(name="crash-published")
async def publishing() -> None:
    publish_state("first")
    await wait_for_signal("go")
    publish_state("second")
    die_once("published")
    await wait_for_signal("end")


def _begin(state: list[str], name: str) -> Async[list[str]]:
    async def go_on() -> str:
        done = await deadly_on_command(name)
        update_state(lambda now: (None, [*now, done]))
        return done

    return Async(go_on, state)


def _drain(state: list[str]) -> Stop[list[str]]:
    return Stop(state, reply="draining")


@workflow(name="crash-draining")
async def draining() -> list[str]:
    received = await receive([], updates={"begin": _begin, "drain": _drain})
    publish_state("drained")
    return sorted(received.state)


def _append(state: list[Any], item: Any) -> NoReply[list[Any]]:
    if item == "deadly":
        die_once("handler")
    return NoReply([*state, item])


@workflow(name="crash-timer")
async def timing() -> tuple[list[Any], bool]:
    received = await receive([], signals={"append": _append}, timeout="3s")
    return received.state, received.timed_out


@workflow(name="crash-parallel")
async def branching() -> list[Any]:
    return await parallel([lambda: work("quick"), lambda: deadly_on_command("slow")])


@workflow(name="crash-continue")
async def continuing(number: int) -> Any | ContinueAsNew:
    if number == 1:
        note("first run")
        await work("before")
        await wait_for_signal("go")
        die_once("not committed")
        return ContinueAsNew(2)
    note("second run")
    die_once("committed")
    return number, run_info().run_no, await work("behind")


@workflow(name="crash-cancel")
async def cancelled() -> None:
    try:
        await wait_for_signal("never")
    except CancelledError:
        try:
            await work("half")
            await deadly("other half")
        except CancelledError:
            note("delivered twice")
        raise


@workflow(name="crash-sending")
async def sending(to: str) -> str:
    await send_signal(to, "s", "from the sender")
    await detach(starting_late, id="detached")
    die_once("sent")
    return "sent"


@workflow(name="crash-starting-late")
async def starting_late() -> str:
    return await work("detached")


@workflow(name="crash-taking")
async def taking() -> list[Any]:
    return [await wait_for_signal("s"), await wait_for_signal("s")]


async def main() -> None:
    global MARKS
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return  # nobody needs this one
    MARKS = Path(order["marks"])
    async with Tenuto(order["url"], lease="1s", grace=0.1):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
