"""Runs that were sealed by another key: said so, with its code and what to do, and never called damaged (R083)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenuto import Encryption, Tenuto, wait_for_signal, workflow
from tenuto.errors import DecodingError, RecordError

LIMIT = "20s"
FIRST = Encryption({"k": b"1" * 32})
Edit = Callable[..., list[tuple[Any, ...]]]


@workflow(name="other_keys_waits")
async def waits() -> int:
    await wait_for_signal("go")
    return 1


@pytest.fixture
async def sealed_url(lasting_url: str) -> str:
    """A store with one run that waits, sealed by the first key."""
    async with Tenuto(lasting_url, codec=FIRST, grace=1) as app:
        await app.start(waits, id="x")
        await reached(app, "suspended")
    return lasting_url


async def reached(app: Tenuto, status: str) -> None:
    async def there() -> bool:
        return await app.get("x").status() == status

    await app.wait_until(there, LIMIT)


@pytest.mark.parametrize("key_id", ["k", "another id"])
async def test_a_run_sealed_by_another_key_is_parked_with_that_as_its_reason(sealed_url: str, key_id: str) -> None:
    other = Encryption({key_id: b"2" * 32})
    async with Tenuto(sealed_url, codec=other, grace=1) as app:
        await app.store.wake("x")
        await reached(app, "parked")
        (summary,) = [run async for run in app.runs()]
        reason = summary.reason or ""
        assert reason.startswith("TN307")
        assert "sealed by key 'k'" in reason
        assert "sealed by another key, give it (codec=, --codec)" in reason
        with pytest.raises(DecodingError, match="sealed by key 'k'"):
            await app.get("x").history()
    async with Tenuto(sealed_url, codec=FIRST, grace=1) as app:
        await app.get("x").resume()
        await app.get("x").signal("go")
        assert await app.get("x").result(timeout=LIMIT) == 1


async def test_whoever_looks_without_a_key_is_told_which_one_is_needed(sealed_url: str) -> None:
    async with Tenuto(sealed_url, codec=Encryption({"k": b"2" * 32}), grace=1) as app:
        await app.store.wake("x")
        await reached(app, "parked")
    async with Tenuto(sealed_url, worker=False) as client:
        (summary,) = [run async for run in client.runs()]
        assert summary.reason == "sealed by key 'k'; give it (codec=, --codec) to read why"
        with pytest.raises(DecodingError, match="sealed by key 'k'"):
            await client.get("x").history()


async def test_a_row_cut_short_is_damaged_and_not_sealed(lasting_url: str, edit: Edit) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        await app.start(waits, id="x")
        await reached(app, "suspended")
    edit(
        "UPDATE workflow_execution_context SET value = ? WHERE workflow_id = 'x' AND key = ?",
        b"\x01",
        b"\x15\x04\x15\x07",
    )
    async with Tenuto(lasting_url, worker=False) as client:
        with pytest.raises(RecordError):
            await client.get("x").history()
