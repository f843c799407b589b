"""`tenuto twf run`, `simulate` and `test`, as a user types them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenuto import Tenuto
from tenuto.cli import main
from tenuto.model.registry import default
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import load_program

PAY = """workflow Pay(n: int) -> (int):
    activity Double(n) -> d
    await timer(10m)
    close d + 1

activity Double(x: int) -> (int):
    return x * 2
"""
ACCOUNT = """workflow Account(n: int) -> (int):
    signal Add(k: int):
        n += k
    signal End():
        e = 1
    query Sum() -> (int):
        return n
    update Ask(k: int) -> (int):
        activity Work(k) -> r
        return r
    await signal End
    close n

activity Work(k: int) -> (int):
    # bound
"""


WORKER = """workflow W() -> (int):
    activity Work(4) -> r
    close r

activity Work(k: int) -> (int):
    # bound
"""
NOTIFIER = """workflow N() -> (map):
    x = notify(1)
    activity Work(2) -> y
    close {x: x, y: y}

activity Work(k: int):
    # bound
"""


@pytest.fixture(autouse=True)
def empty_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    sorts: tuple[Any, ...] = ("workflow", "step")
    before = {item.id for sort in sorts for item in default.definitions(sort)}
    kept = dict(default.provided(TwfProvider).library.programs), list(default.provided(TwfProvider).library.bindings)
    yield
    for sort in sorts:
        for item in default.definitions(sort):
            if item.id not in before:
                default.forget(item.id)
    default.provided(TwfProvider).library.programs, default.provided(TwfProvider).library.bindings = kept


def twf(*args: str) -> Result:
    return CliRunner().invoke(main, ["twf", *args], catch_exceptions=False)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_run_starts_a_workflow_and_prints_its_result() -> None:
    write("pay.twf", PAY.replace("10m", "10ms"))
    result = twf("run", "pay.twf", "--workflow", "Pay", "--arg", "n=3", "--store", "memory://")
    assert (result.exit_code, result.output.strip()) == (0, "7")


def test_run_reports_as_json_with_the_place_of_a_failure() -> None:
    write("pay.twf", PAY)
    result = twf("run", "pay.twf", "--arg", "n=x", "--store", "memory://", "--id", "p1", "--json")
    document = json.loads(result.output)
    assert result.exit_code == 1
    assert (document["id"], document["status"], document["result"]) == ("p1", "failed", None)
    failure = document["failure"]
    assert (failure["code"], failure["source"], failure["file"], failure["line"]) == ("TWF502", "Double", "pay.twf", 2)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), 2),
        (("--arg", "n"), 2),
        (("--arg", "m=1"), 2),
        (("--arg", "n=1", "--workflow", "Nope"), 2),
        (("--arg", "n=1", "--bindings", "no_such_module"), 2),
        (("--arg", "n=1", "--wait", "soon"), 2),
        (("--arg", "n=1", "--wait", "10ms"), 3),
    ],
)
def test_run_says_by_its_exit_code_what_was_wrong(args: tuple[str, ...], code: int) -> None:
    write("pay.twf", PAY)
    assert twf("run", "pay.twf", "--store", "memory://", *args).exit_code == code


def test_run_with_the_id_of_another_run_is_wrong_usage() -> None:
    write("pay.twf", PAY.replace("10m", "1ms"))
    store = ("--store", "sqlite:///pay.db", "--id", "p")
    assert twf("run", "pay.twf", "--arg", "n=1", *store).output.strip() == "3"
    assert twf("run", "pay.twf", "--arg", "n=1", *store).output.strip() == "3"
    assert twf("run", "pay.twf", "--arg", "n=2", *store).exit_code == 2


def test_run_refuses_a_program_with_errors() -> None:
    write("bad.twf", "workflow W():\n    activity Nope()\n")
    result = twf("run", "bad.twf", "--store", "memory://")
    assert result.exit_code == 1
    assert "TWF301" in result.output


def test_run_parks_without_bindings_and_exits_3() -> None:
    write("account.twf", ACCOUNT.replace("    await signal End\n", "    activity Work(1)\n"))
    result = twf("run", "account.twf", "--arg", "n=1", "--store", "memory://", "--json")
    assert result.exit_code == 3
    assert "TWF601" in json.loads(result.output)["parked"]


def test_run_uses_a_bindings_module(monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        "shop_bindings_for_run.py",
        "from tenuto.twf import Bindings\nbindings = Bindings()\n\n"
        '@bindings.activity("Work")\ndef work(k):\n    return k * 10\n',
    )
    write("w.twf", WORKER)
    assert twf("run", "w.twf", "--bindings", "shop_bindings_for_run", "--store", "memory://").output.strip() == "40"
    assert twf("check", "w.twf", "--bindings", "shop_bindings_for_run").exit_code == 0


def test_simulate_lets_time_jump_and_prints_what_happened_when() -> None:
    write("pay.twf", PAY)
    result = twf("simulate", "pay.twf", "--arg", "n=3")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0][:3] == ["00:00:00", "started", "Pay(3)"]
    assert ["00:10:00", "timer", "timer"] in lines
    assert lines[-1] == ["7"]


SCRIPT: list[dict[str, Any]] = [
    {"at": "5m", "signal": "Add", "args": [4]},
    {"at": "6m", "update": "Ask", "args": [4], "id": "a"},
    {"at": "6m", "query": "Sum"},
    {"activity": "Work", "call": 0, "fails": {"message": "not yet"}},
    {"activity": "Work", "call": 1, "takes": "30s", "returns": 99},
    {"at": "10m", "signal": "End"},
]


@pytest.mark.parametrize("form", ["lines", "list", "yaml"])
def test_simulate_follows_a_script(form: str) -> None:
    write("account.twf", ACCOUNT)
    if form == "lines":
        script = write("s.jsonl", "\n".join(json.dumps(step) for step in SCRIPT))
    else:
        script = write("s.yaml" if form == "yaml" else "s.json", json.dumps(SCRIPT))
    result = twf("simulate", "account.twf", "--arg", "n=3", "--script", script, "--json")
    document = json.loads(result.output)
    assert (result.exit_code, document["status"], document["result"]) == (0, "completed", 7)
    events = {event["event"]: event for event in document["transcript"]}
    assert events["update"]["value"] == 99
    assert events["query"]["value"] == 7
    assert [event["call"] for event in document["transcript"] if event["event"] == "activity"] == [0, 1]
    assert events["returned"]["at"] == pytest.approx(390.2)


def test_simulate_stubs_and_lists_what_is_not_bound() -> None:
    write("n.twf", NOTIFIER)
    parked = twf("simulate", "n.twf", "--json")
    assert parked.exit_code == 3
    assert "TWF602" in json.loads(parked.output)["parked"]
    document = json.loads(twf("simulate", "n.twf", "--stub", "--json").output)
    assert document["result"] == {"x": {"name": "notify", "args": [1]}, "y": {"name": "Work", "args": [2]}}
    assert document["stubbed"] == ["notify", "Work"]


def test_simulate_says_what_a_run_still_waits_for() -> None:
    write("account.twf", ACCOUNT)
    result = twf("simulate", "account.twf", "--arg", "n=3", "--json")
    assert result.exit_code == 3
    assert "End" in json.loads(result.output)["parked"]


def test_simulate_can_cancel() -> None:
    write("pay.twf", PAY)
    script = write("s.json", json.dumps([{"at": "1m", "cancel": True}]))
    result = twf("simulate", "pay.twf", "--arg", "n=1", "--script", script, "--json")
    assert (result.exit_code, json.loads(result.output)["status"]) == (1, "cancelled")


@pytest.mark.parametrize("step", [{"at": "soon", "signal": "A"}, {"sginal": "A"}, {}, 5])
def test_a_script_that_means_nothing_is_wrong_usage(step: object) -> None:
    write("pay.twf", PAY)
    script = write("s.json", json.dumps([step]))
    assert twf("simulate", "pay.twf", "--arg", "n=1", "--script", script).exit_code == 2


def test_test_compares_simulations_with_what_they_expect() -> None:
    write("pay.twf", PAY)
    write("account.twf", ACCOUNT)
    good = {
        "name": "pays after ten minutes",
        "program": "pay.twf",
        "args": {"n": 3},
        "expect": {"status": "completed", "result": 7, "at": "10m", "calls": {"Double": 1}},
    }
    asks = {
        "program": ["account.twf"],
        "args": [3],
        "script": [*SCRIPT[:2], {"at": "7m", "query": "Sum", "expect": 7}, *SCRIPT[3:]],
        "expect": {"result": 7},
    }
    write("good.sim.json", json.dumps([good, asks]))
    assert twf("test", "good.sim.json").exit_code == 0
    bad = {**good, "expect": {"result": 8, "failure": {"type": "E"}}}
    write("bad.sim.json", json.dumps(bad))
    result = twf("test", ".", "--json")
    assert result.exit_code == 1
    problems = {case["name"]: case["problems"] for case in json.loads(result.output)["cases"]}
    assert any("expected 8, got 7" in line for line in problems["bad.sim.json: pays after ten minutes"])


FAMILY = """workflow Parent() -> (int):
    update Ask(k: int) -> (int):
        activity Note(k) -> r
        await timer(2s)
        return r
    spawn workflow Kid(2) -> h
    activity Note(0)
    await h -> a
    await timer(1d)
    close a

workflow Kid(n: int) -> (int):
    activity Note(n)
    await timer(1m)
    close n * 10

activity Note(k: int) -> (int):
    return k
"""


def transcript(script: list[dict[str, Any]], *options: str, name: str = "Parent") -> tuple[dict[str, Any], list[Any]]:
    write("family.twf", FAMILY)
    path = write("s.json", json.dumps(script))
    document = json.loads(
        twf("simulate", "family.twf", "--workflow", name, "--script", path, "--json", *options).output
    )
    return document, [(event["event"], event.get("name"), event.get("run")) for event in document["transcript"]]


def test_simulate_shows_children_and_whose_activities_are_whose() -> None:
    document, events = transcript([])
    kid = next(run for event, name, run in events if (event, name) == ("started", "Kid"))
    assert kid is not None
    assert document["status"] == "completed"
    assert events == [
        ("started", "Parent", None),
        ("started", "Kid", kid),
        ("activity", "Note", None),
        ("returned", "Note", None),
        ("activity", "Note", kid),
        ("returned", "Note", kid),
        ("timer", "timer", kid),
        ("completed", "Kid", kid),
        ("timer", "timer", None),
        ("completed", None, None),
    ]
    started = next(event for event in document["transcript"] if event.get("name") == "Kid")
    assert (started["at"], started["args"]) == (0, [2])


def test_simulate_writes_the_line_of_an_update_where_it_was_answered() -> None:
    document, events = transcript([{"at": "30s", "update": "Ask", "args": [7], "expect": 7}])
    names = [event for event, _, run in events if run is None]
    assert names.index("update") > max(n for n, name in enumerate(names) if name == "returned")
    update = next(event for event in document["transcript"] if event["event"] == "update")
    assert (update["at"], update["sent"], update["value"]) == (32, 30, 7)


def test_the_line_of_an_update_that_is_refused_says_so_in_its_place() -> None:
    document, events = transcript([{"at": "30s", "update": "Nope"}, {"at": "2d", "update": "Ask", "args": [1]}])
    refused, late = (event for event in document["transcript"] if event["event"] == "update")
    assert (refused["at"], late["at"]) == (30, 2 * 86_400)
    assert "error" in refused
    assert "error" in late
    assert [event for event, _, run in events if run is None][-1] == "update"


def test_a_simulation_ends_when_its_run_does_whatever_the_script_sends_later() -> None:
    write("pay.twf", PAY.replace("10m", "1d"))
    case = {"program": "pay.twf", "args": {"n": 3}, "script": [{"at": "5d", "signal": "Late"}]}
    write("good.sim.json", json.dumps({**case, "expect": {"at": "1d", "status": "completed"}}))
    assert twf("test", "good.sim.json").exit_code == 0
    script = write("s.json", json.dumps(case["script"]))
    document = json.loads(twf("simulate", "pay.twf", "--arg", "n=3", "--script", script, "--json").output)
    assert [(event["at"], event["event"]) for event in document["transcript"]][-2:] == [
        (86_400, "completed"),
        (432_000, "signal"),
    ]


@pytest.mark.parametrize(("wanted", "shown"), [("2d", '"1d"'), ("90s", '"1d"'), (7, "86400.0")])
def test_a_time_that_is_not_as_expected_is_told_in_the_unit_of_the_expectation(wanted: Any, shown: str) -> None:
    write("pay.twf", PAY.replace("10m", "1d"))
    write("bad.sim.json", json.dumps({"program": "pay.twf", "args": {"n": 3}, "expect": {"at": wanted}}))
    result = twf("test", "bad.sim.json")
    assert result.exit_code == 1
    assert f"at: expected {json.dumps(wanted)}, got {shown}" in result.output


REMOTE = """workflow W() -> (map):
    nexus "pay" workflow Charge(20) -> a
    spawn nexus "pay" workflow Charge(21) -> h
    await h -> b
    detach nexus "mail" workflow Send("x")
    close {a: a, b: b}
"""


def test_simulate_stubs_workflows_of_other_namespaces() -> None:
    write("w.twf", REMOTE)
    parked = json.loads(twf("simulate", "w.twf", "--json").output)
    assert "TWF604" in parked["parked"]
    document = json.loads(twf("simulate", "w.twf", "--stub", "--json").output)
    assert document["result"] == {"a": {"name": "Charge", "args": [20]}, "b": {"name": "Charge", "args": [21]}}
    assert document["stubbed"] == ["pay/Charge", "mail/Send"]
    assert ("started", "pay/Charge") in [(event["event"], event.get("name")) for event in document["transcript"]]
    assert "TWF604" in json.loads(twf("simulate", "w.twf", "--json").output)["parked"]  # the stub is gone again


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_a_namespace_is_named_on_the_command_line(command: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'pay.db'}"
    write("charge.twf", "workflow Charge(n: int) -> (int):\n    close n + 1\n")
    write("w.twf", 'workflow W() -> (int):\n    nexus "pay" workflow Charge(20) -> a\n    close a\n')
    store = ("--store", "memory://") if command == "run" else ()
    with serving(other, "charge.twf"):
        result = twf(command, "w.twf", *store, "--namespace", f"pay={other}", "--json")
    document = json.loads(result.output)
    assert (result.exit_code, document["result"]) == (0, 21)


@pytest.mark.parametrize("given", ["pay", "=sqlite:///x.db", "pay=", "pay=nonsense://x"])
@pytest.mark.parametrize("command", ["run", "simulate"])
def test_a_namespace_that_means_nothing_is_wrong_usage(command: str, given: str) -> None:
    write("pay.twf", PAY)
    result = twf(command, "pay.twf", "--arg", "n=1", "--namespace", given)
    assert result.exit_code == 2


@contextmanager
def serving(url: str, program: str) -> Iterator[None]:
    """A worker of another store, in a thread of its own."""
    program_text = Path(program).read_text(encoding="utf-8")
    stop = threading.Event()
    ready = threading.Event()

    async def serve() -> None:
        load_program(files={program: program_text})
        async with Tenuto(url) as app:
            await app.store.defined()
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(20)
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


ECHO = """workflow Echo(version: string, n: int, any: json) -> (list):
    close [version, n, any]
"""


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("1.2", "1.2"),
        ("007", "007"),
        ("true", "true"),
        ("null", "null"),
        ('{"a": 1}', '{"a": 1}'),
        ('"1.2"', "1.2"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("command", ["run", "simulate"])
def test_an_argument_for_a_string_is_text_and_others_are_json(command: str, given: str, shown: str) -> None:
    write("echo.twf", ECHO)
    store = ("--store", "memory://") if command == "run" else ()
    args = ("--arg", f"version={given}", "--arg", "n=1", "--arg", "any=1.5")
    document = json.loads(twf(command, "echo.twf", *args, *store, "--json").output)
    assert document["result"] == [shown, 1, 1.5]


def test_a_case_gives_its_arguments_as_they_are() -> None:
    write("echo.twf", ECHO)
    case = {"program": "echo.twf", "args": {"version": 1.2, "n": 1, "any": "x"}, "expect": {"result": [1.2, 1, "x"]}}
    write("echo.sim.json", json.dumps(case))
    assert twf("test", "echo.sim.json").exit_code == 0
