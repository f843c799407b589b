"""What `show`, `runs`, `explain` and `doctor` print of values, errors and many runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tenuto import Tenuto, step, workflow
from tenuto.codec.values import dump
from tenuto.errors import RunFailedError, StepFailedError, StuckError
from tenuto.store.port import NewRun, Park
from tenuto.store.urls import open_store

INPUT_KEY = b"\x15\x04\x15\x05"


@dataclass
class Parcel:
    """Of the user's."""

    id: int
    lines: tuple[str, ...]


@step(max_attempts=1)
async def look_up(order: str) -> None:
    try:
        raise KeyError("missing")
    except KeyError as error:
        error.add_note("of the warehouse")
        raise LookupError(f"no {order}") from error


async def give_back(parcel: Parcel) -> None:
    raise RuntimeError("cannot give back")


@step(max_attempts=1)
async def both() -> None:
    raise ExceptionGroup("two", [ValueError("left"), KeyError("right")])


@workflow(name="seeing.parcel")
async def parcel(order: Parcel) -> Any:
    await step("keep", _same, order, rollback=give_back, max_attempts=1)
    with suppress(StepFailedError):
        await look_up("x")
    with suppress(StepFailedError):
        await both()
    return {"parcel": order, "size": 10**5000}


async def _same(order: Parcel) -> Parcel:
    return order


@workflow(name="seeing.broken")
async def broken(order: str) -> None:
    await step("keep", _same, Parcel(1, ()), rollback=give_back, max_attempts=1)
    await look_up(order)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a run that ended well, and one that failed."""
    url = f"sqlite:///{tmp_path_factory.mktemp('seeing') / 'x.db'}"

    async def fill() -> None:
        async with Tenuto(url, grace=1) as app:
            await (await app.start(parcel, Parcel(7, ("a",)), id="parcel-7")).result(timeout=20)
            with pytest.raises(RunFailedError):
                await (await app.start(broken, "y", id="broken-1")).result(timeout=20)

    asyncio.run(fill())
    return url


def test_values_of_classes_are_shown_by_their_fields_without_the_code(tenuto: Callable[..., Result], url: str) -> None:
    shown = json.loads(tenuto("show", "parcel-7", "--json", "--url", url).stdout)
    order = {"$object": f"{__name__}:Parcel", "fields": {"id": 7, "lines": {"$tuple": ["a"]}}}
    assert shown["input"] == [[order], {}]
    assert shown["history"][0]["value"] == order
    assert shown["result"] == {"parcel": order, "size": {"$int": hex(10**5000)}}


def test_a_number_of_thousands_of_digits_is_shown_shortened(tenuto: Callable[..., Result], url: str) -> None:
    done = tenuto("show", "parcel-7", "--url", url)
    assert done.exit_code == 0
    assert "digits)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 1_000


def test_an_error_is_shown_with_its_code_notes_frames_cause_and_members(
    tenuto: Callable[..., Result], url: str
) -> None:
    shown = json.loads(tenuto("show", "parcel-7", "--json", "--url", url).stdout)
    _, failed, grouped = (entry["error"] for entry in shown["history"])
    assert (failed["type"], failed["code"]) == ("StepExhaustedError", "TN115")
    cause = failed["cause"]
    assert (cause["type"], cause["message"]) == ("LookupError", "no x")
    assert "in look_up" in cause["traceback"]
    assert (cause["cause"]["type"], cause["cause"]["notes"]) == ("KeyError", ["of the warehouse"])
    assert [member["type"] for member in grouped["cause"]["members"]] == ["ValueError", "KeyError"]
    text = tenuto("show", "parcel-7", "--url", url).stdout
    for said in ("LookupError: no x", "KeyError: 'missing'", "of the warehouse", "in look_up", "- ValueError: left"):
        assert said in text, said


def test_a_failed_run_says_why_in_a_list_and_which_compensation_failed(tenuto: Callable[..., Result], url: str) -> None:
    listed = tenuto("runs", "--status", "failed", "--url", url).stdout
    assert "look_up: KeyError: 'missing'" in listed
    (run,) = json.loads(tenuto("runs", "--status", "failed", "--json", "--url", url).stdout)
    assert run["error"] == {"type": "KeyError", "code": None, "message": "'missing'", "location": "look_up"}
    said = "1 rollback handler failed: keep: RuntimeError: cannot give back; `recover` runs it again"
    assert said in tenuto("show", "broken-1", "--url", url).stdout
    assert said in tenuto("explain", "broken-1", "--url", url).stdout
    shown = json.loads(tenuto("show", "broken-1", "--json", "--url", url).stdout)
    assert shown["history"][0]["rollback"]["status"] == "failed"
    assert shown["history"][0]["rollback"]["error"]["cause"]["type"] == "RuntimeError"


# --- many runs


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with one run of one workflow, then 700 of another, some of them parked."""
    url = f"sqlite:///{tmp_path_factory.mktemp('crowd') / 'x.db'}"

    async def fill() -> None:
        store = await open_store(url)
        call = ((INPUT_KEY, dump([[], {}])),)
        await store.create(NewRun("old-1", "workflow//shop.py//old", call))
        for number in range(700):
            await store.create(NewRun(f"noise-{number}", "workflow//shop.py//noise", call))
        for number in range(20):
            lease = await store.claim(f"noise-{number}")
            reason = str(StuckError("3 workers were lost")) if number < 12 else "HistoryDivergedError TN104: x"
            await store.commit(Park(lease, reason=reason))
        await store.close()

    asyncio.run(fill())
    return url


def test_a_run_behind_hundreds_of_others_is_found_by_the_short_name_of_its_workflow(
    tenuto: Callable[..., Result], crowd: str
) -> None:
    """R082"""
    (found,) = json.loads(tenuto("runs", "--workflow", "old", "--json", "--url", crowd).stdout)
    assert found["id"] == "old-1"
    assert len(json.loads(tenuto("runs", "--limit", "700", "--json", "--url", crowd).stdout)) == 700
    stuck = json.loads(tenuto("runs", "--status", "stuck", "--json", "--url", crowd).stdout)
    assert len(stuck) == 12
    assert {run["reason"].partition(":")[0] for run in stuck} == {"stuck"}


def test_the_doctor_counts_runs_in_the_store_and_lists_a_few(tenuto: Callable[..., Result], crowd: str) -> None:
    done = tenuto("doctor", "--json", "--url", crowd)
    runs = json.loads(done.stdout)["runs"]
    assert runs["open"] == {"parked": 20, "pending": 681}
    assert runs["counts"] == {"stuck": 12, "parked": 8}
    assert (len(runs["stuck"]), len(runs["parked"])) == (10, 8)


def test_what_was_exported_over_another_file_can_be_read_by_its_owner_only(
    tenuto: Callable[..., Result], url: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    file.write_text("{}")
    file.chmod(0o644)
    assert tenuto("export", "parcel-7", str(file), "--force", "--url", url).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
