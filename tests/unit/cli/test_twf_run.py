"""`tenuto twf run`, `simulate` and `test`, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenuto.cli import main
from tenuto.model import registry
from tenuto.twf.run.library import library

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
    before = {item.id for sort in sorts for item in registry.definitions(sort)}
    kept = dict(library.programs), list(library.bindings)
    yield
    for sort in sorts:
        for item in registry.definitions(sort):
            if item.id not in before:
                registry.forget(item.id)
    library.programs, library.bindings = kept


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
