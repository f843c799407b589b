"""What is wrong is refused with a code, where it is wrong, and nothing is written."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenuto import (
    join,
    loop,
    parallel,
    patched,
    publish_state,
    race,
    receive,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.codec.rows import decode_rows
from tenuto.codec.values import dump
from tenuto.errors import (
    DecodingError,
    EncodingError,
    ForeignCallError,
    InvalidNameError,
    LimitError,
    NotInWorkflowError,
    RecordError,
    TenutoError,
)
from tenuto.kernel.operations import Ok, Parked
from tenuto.model.definitions import Step


def work(*args: Any) -> None: ...


@workflow(name="bad-input-child")
async def child(value: Any = None) -> None: ...


def caught(drive: Any, call: Any) -> BaseException:
    """What a call in a workflow raises at its line; nothing is written, and the run goes on."""
    found: list[BaseException] = []

    async def body() -> Any:
        try:
            result = call()
            if asyncio.iscoroutine(result):
                await result
        except Exception as error:  # noqa: BLE001
            found.append(error)
        return await step("after", work)

    run = drive(body)
    before = dict(run.kv)
    run.turn()
    assert run.released() == ["after"], run.outcome
    assert run.kv == before
    [error] = found
    return error


# --- I/O in workflow code


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("open()", lambda: open(__file__)),  # noqa: SIM115
        ("open()", lambda: Path(__file__).read_text()),
        ("socket", lambda: socket.create_connection(("localhost", 9), timeout=1)),
        ("socket", lambda: socket.socket().connect(("localhost", 9))),
        ("socket.getaddrinfo", lambda: socket.getaddrinfo("localhost", 9)),
        ("urllib.request.urlopen()", lambda: urllib.request.urlopen("http://localhost:9/")),
        ("subprocess.Popen()", lambda: subprocess.run([sys.executable, "-V"], check=False)),
        ("os.listdir()", lambda: os.listdir(".")),
        ("os.remove()", lambda: os.remove("/nonexistent")),
        ("os.system()", lambda: os.system("true")),  # noqa: S605, S607
    ],
)
def test_io_in_a_workflow_body_is_refused_at_its_line(drive, what, call):
    error = caught(drive, call)
    assert isinstance(error, ForeignCallError)
    assert error.code == "TN106"
    assert what in str(error)
    assert "put it in a step" in str(error)


def test_blocking_and_threads_in_a_workflow_body_are_refused_at_their_line(drive):
    errors: list[str] = []

    async def body() -> Any:
        for call in (lambda: time.sleep(0), lambda: threading.Thread(target=work)):
            try:
                call()
            except ForeignCallError as error:
                errors.append(str(error))
        return "went on"

    run = drive(body)
    run.turn()
    assert run.result == "went on"
    assert ["time.sleep()" in errors[0], "threading.Thread()" in errors[1]] == [True, True]


def test_io_deep_in_a_library_is_refused_too(drive):
    """The guard watches the process, not the source: third-party code included."""
    import http.client

    error = caught(drive, lambda: http.client.HTTPConnection("localhost", 9, timeout=1).request("GET", "/"))
    assert isinstance(error, ForeignCallError)


def test_the_guard_lets_steps_and_everything_outside_of_turns_alone(drive, tmp_path):
    async def body() -> Any:
        return await step("reads", work)

    run = drive(body)
    run.turn()
    file = tmp_path / "f"
    file.write_text("between turns")
    run.turn(run.ok("reads", file.read_text()))
    assert run.result == "between turns"


def test_an_import_inside_a_workflow_body_is_not_io(drive):
    async def body() -> Any:
        import colorsys

        return colorsys.rgb_to_hsv(0, 0, 0)

    sys.modules.pop("colorsys", None)
    run = drive(body)
    run.turn()
    assert run.result == (0.0, 0.0, 0)


# --- names


BAD_NAMES = ["", "x" * 256, "é" * 128, "\ud800"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=["empty", "long", "long in UTF-8", "lone surrogate"])
@pytest.mark.parametrize(
    "call",
    [
        lambda name: step(name, work),
        lambda name: sleep(1, name=name),
        lambda name: wait_for_signal(name),
        lambda name: join({name: work}),
        lambda name: join({"a": work}, name=name),
        lambda name: race({name: work}),
        lambda name: parallel([work], name=name),
        lambda name: loop(name, 0, work),
        lambda name: receive(0, signals={name: work}),
        lambda name: patched(name),
        lambda name: spawn(child, id=name),
    ],
    ids=["step", "sleep", "wait", "branch", "join", "race", "parallel", "loop", "receive", "patched", "spawn"],
)
def test_an_invalid_name_is_refused_at_its_line(drive, call, name):
    """2"""
    error = caught(drive, lambda: call(name))
    assert isinstance(error, InvalidNameError)
    assert isinstance(error, ValueError)
    assert error.code == "TN217"


@pytest.mark.parametrize(
    "name", ["a/b", "~0", "x#2", "@1", "[0]", "m!3", "?p", "50%", "tab\there", "päckchen", "x" * 255]
)
def test_any_other_text_is_a_name_and_stays_apart_from_what_it_looks_like(drive, name):
    """2, section 7: two locations with one key"""

    async def body() -> Any:
        first = await step(name, work)
        return first, await step(name, work), await step("a", work)

    run = drive(body, crash=True)
    run.turn()
    for value in (1, 2, 3):
        [(location, attempt)] = run.in_flight
        run.turn(run.ok("x")._replace(location=location, attempt=attempt, outcome=Ok(dump(value))))
    assert run.result == (1, 2, 3)
    assert len(run.history) == 3


# --- values


class Local:
    """A class that cannot be stored: of no listed sort."""


@dataclass
class Node:
    child: Any = None


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


class Integer(int): ...


@pytest.mark.parametrize(
    ("value", "sort", "path"),
    [
        ({"items": [1, Local()]}, EncodingError, "$.items[1]"),
        ([Integer(3)], EncodingError, "$[0]"),
        (Node(Node(object())), EncodingError, "$.child.child"),
        (nested(101), LimitError, None),
        (cyclic(), LimitError, None),
        (b"x" * (2 * 1024 * 1024 + 1), LimitError, None),
    ],
    ids=["unknown class", "subclass of int", "deep in dataclasses", "101 levels", "cycle", "2 MiB + 1"],
)
@pytest.mark.parametrize("where", ["argument of a step", "published", "child's input", "state of a loop"])
def test_a_value_that_cannot_be_stored_is_refused_where_it_is_given(drive, value, sort, path, where):
    """K118"""
    call = {
        "argument of a step": lambda: step("s", work, value),
        "published": lambda: publish_state(value),
        "child's input": lambda: spawn(child, value),
        "state of a loop": lambda: loop("l", value, work),
    }[where]
    error = caught(drive, call)
    assert isinstance(error, sort)
    assert error.code == {EncodingError: "TN129", LimitError: "TN218"}[sort]
    if path is not None:
        assert error.path.endswith(path.removeprefix("$"))


def test_a_local_class_cannot_be_stored(drive):
    """K118"""

    @dataclass
    class Inside:
        n: int

    error = caught(drive, lambda: step("s", work, Inside(1)))
    assert isinstance(error, EncodingError)
    assert "Inside" in error.type_name


def test_a_result_of_the_run_that_cannot_be_stored_fails_it(drive):
    """5.3"""

    async def body() -> Any:
        await step("a", work)
        return object()

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"
    with pytest.raises(EncodingError):
        run.result


def test_an_error_that_cannot_be_stored_whole_still_fails_the_run(drive):
    """5.3: exceptions always can be, if need be without their attributes"""

    class Odd(Exception):
        def __init__(self, handle: object) -> None:
            super().__init__("odd", handle)
            self.handle = handle

    async def body() -> Any:
        await step("a", work)
        raise Odd(object())

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"
    with pytest.raises(Exception, match="odd"):
        run.result


# --- what comes in


UNREADABLE = {
    "empty": b"",
    "break": b"\xff",
    "truncated": b"\x82\x01",
    "unknown class": bytes.fromhex("d974038269676f6e653a54797065a0"),
    "trailing bytes": b"\x01\x02",
}


@pytest.mark.parametrize(
    ("as_what", "damage"),
    [
        (as_what, damage)
        for as_what in ("step result", "signal", "update", "child's end")
        for damage in UNREADABLE
        if (as_what, damage) != ("child's end", "empty")  # that is a child without a value
    ],
)
def test_bytes_that_cannot_be_read_park_the_run(drive, as_what, damage):
    """T9, K121"""
    payload = UNREADABLE[damage]

    async def body() -> Any:
        match as_what:
            case "step result":
                await step("a", work)
            case "signal":
                await wait_for_signal("s")
            case "update":
                await receive(0, updates={"u": work})
            case "child's end":
                await (await spawn(child))

    run = drive(body)
    run.turn()
    before = dict(run.kv)
    fact = {
        "step result": run.ok("a")._replace(outcome=Ok(payload)),
        "signal": run.signal(1, "s")._replace(payload=payload),
        "update": run.update(1, "id", "u")._replace(args=payload),
        "child's end": run.ok("child:bad-input-child", attempt=0)._replace(outcome=Ok(payload)),
    }[as_what]
    turn = run.turn(fact)
    assert isinstance(turn.outcome, Parked), turn.outcome
    assert isinstance(run.reason, DecodingError)
    assert run.reason.code == "TN307"
    assert run.kv == before


def test_a_class_that_is_not_loaded_is_named_with_the_way_out(drive):
    """K117"""

    async def body() -> Any:
        return await step("a", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a")._replace(outcome=Ok(bytes.fromhex("d974038269676f6e653a54797065a0"))))
    assert "gone:Type" in str(run.reason)
    assert "import" in str(run.reason)
    run.reload()  # its module was imported meanwhile: the fact is still with the host
    run.turn(run.ok("a", 1))
    assert run.result == 1


def test_damaged_rows_are_refused_whole(drive):
    """K007, 5.2"""

    async def body() -> Any:
        await step("a", work)
        await sleep("1h")

    run = drive(body)
    run.turn()
    run.turn(run.ok("a", 1))
    good = dict(run.kv)
    for key, value in good.items():
        if key[:2] in (b"\x15\x02", b"\x15\x05") or key == b"\x15\x04\x15\x07":
            for damaged in (value[:-1], value[:3], b"", b"\x02" + value[1:], value + b"!"):
                with pytest.raises(RecordError) as refused:
                    decode_rows("r", sorted({**good, key: damaged}.items()))
                assert refused.value.code == "TN306"
    for missing in (
        b"\x15\x04\x15\x01",
        b"\x15\x04\x15\x04",
        b"\x15\x04\x15\x05",
        b"\x15\x04\x15\x07",
        b"\x15\x01\x14",
    ):
        with pytest.raises(RecordError):
            decode_rows("r", sorted((key, value) for key, value in good.items() if key != missing))
    with pytest.raises(RecordError):
        decode_rows("r", sorted({**good, b"\x15\x09": b""}.items()))


# --- places


@pytest.mark.parametrize(
    "call",
    [lambda: sleep(1), lambda: wait_for_signal("s"), lambda: join({}), lambda: patched("p"), lambda: spawn(child)],
)
def test_model_calls_outside_a_run_are_refused(call):
    with pytest.raises(NotInWorkflowError) as refused:
        call()
    assert refused.value.code == "TN101"


def test_a_path_that_is_too_deep_is_refused(drive):
    """5.4: path 64 segments"""

    async def deeper(level: int) -> Any:
        if level == 0:
            return await step("bottom", work)
        return await join({"b": lambda: deeper(level - 1)})

    found: list[BaseException] = []

    async def body() -> Any:
        try:
            await deeper(40)
        except TenutoError as error:
            found.append(error)
        return await step("after", work)

    run = drive(body)
    run.turn()
    assert run.released() == ["after"]
    error: Any = found[0]
    while not isinstance(error, LimitError):
        [error] = error.errors.values()
    assert (error.code, error.limit) == ("TN218", 64)


def test_a_step_marked_with_an_empty_name_is_refused():
    with pytest.raises(InvalidNameError):
        Step(work, id="x", name="", options={})
