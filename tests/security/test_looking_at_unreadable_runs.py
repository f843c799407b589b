"""Runs whose rows cannot be read here: every way to look at one says why, and `explain` answers (R073, R083)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tenuto import Encryption, Tenuto, step, wait_for_signal, workflow
from tenuto.cli import main
from tenuto.errors import DecodingError, RecordError, RunFailedError

LIMIT = "20s"
FIRST = Encryption({"k": b"1" * 32})
Edit = Callable[..., list[tuple[Any, ...]]]


@workflow(name="unreadable_waits")
async def waits() -> int:
    await wait_for_signal("go")
    return 1


@step(max_attempts=1)
async def fail() -> None:
    raise ValueError("canary")


@workflow(name="unreadable_fails")
async def fails() -> None:
    await fail()


@pytest.fixture
async def sealed_url(lasting_url: str) -> str:
    """A store with a run that waits and one that failed, sealed by the first key."""
    async with Tenuto(lasting_url, codec=FIRST, grace=1) as app:
        waiting = await app.start(waits, id="waits")
        with pytest.raises(RunFailedError):
            await (await app.start(fails, id="fails")).result(timeout=LIMIT)

        async def there() -> bool:
            return await waiting.status() == "suspended"

        await app.wait_until(there, LIMIT)
    return lasting_url


@pytest.mark.parametrize("codec", [None, Encryption({"k": b"2" * 32}), Encryption({"other": b"2" * 32})])
async def test_a_run_sealed_by_another_key_is_explained_and_refused_to_those_who_read_it(
    sealed_url: str, codec: Any
) -> None:
    async with Tenuto(sealed_url, worker=False, codec=codec) as client:
        for run_id, status in (("waits", "suspended"), ("fails", "failed")):
            explanation = await client.get(run_id).explain()
            assert explanation.status == status
            assert "sealed by key 'k'" in str(explanation)
            assert "give it (codec=, --codec)" in str(explanation)
            for look in (client.get(run_id).history, client.get(run_id).query):
                with pytest.raises(DecodingError, match="sealed by key 'k'"):
                    await look()
        errors = {run.id: run.error async for run in client.runs()}
        assert errors["waits"] is None
        failed = errors["fails"]
        assert failed is not None
        assert (failed.type, failed.code) == ("DecodingError", "TN307")
        assert "sealed by key 'k'" in failed.message


async def test_the_key_shows_what_is_hidden_without_it(sealed_url: str) -> None:
    async with Tenuto(sealed_url, worker=False, codec=FIRST) as client:
        (failed,) = [run async for run in client.runs(status="failed")]
        assert failed.error is not None
        assert (failed.error.type, failed.error.message, failed.error.location) == ("ValueError", "canary", "fail")
        assert (await client.get("waits").explain()).unread is None


async def test_a_damaged_row_is_a_cause_that_explain_names(lasting_url: str, edit: Edit) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        with pytest.raises(RunFailedError):
            await (await app.start(fails, id="x")).result(timeout=LIMIT)
    edit(
        "UPDATE workflow_execution_context SET value = ? WHERE workflow_id = 'x' AND key = ?",
        b"\x01",
        b"\x15\x04\x15\x07",
    )
    async with Tenuto(lasting_url, worker=False) as client:
        explanation = await client.get("x").explain()
        assert explanation.unread is not None
        assert "TN306" in explanation.unread
        for look in (client.get("x").history, client.get("x").query):
            with pytest.raises(RecordError):
                await look()


async def test_the_command_line_says_which_key_is_needed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with Tenuto(url, codec=FIRST, grace=1) as app:
        with pytest.raises(RunFailedError):
            await (await app.start(fails, id="x")).result(timeout=LIMIT)

    def run(*words: str) -> Any:
        import threading

        found: list[Any] = []  # the command has an event loop of its own
        thread = threading.Thread(target=lambda: found.append(CliRunner().invoke(main, [*words, "--url", url])))
        thread.start()
        thread.join()
        return found[0]

    for words in (("show", "x"), ("query", "x")):
        done = run(*words)
        assert done.exit_code == 4
        assert "TN307" in done.output
        assert "sealed by key 'k'" in done.output
    assert "sealed by key 'k'" in run("explain", "x").output
    listed = json.loads(run("runs", "--json").stdout)
    assert listed[0]["error"]["message"] == "sealed by key 'k'; give it (codec=, --codec) to read why"
