"""Workflows written with directives: the same on every engine."""

from __future__ import annotations

from tenuto_portable import LIMIT, Stage

from tenuto import wait_for_signal


async def charge(card: str, cents: int) -> str:
    "use step"
    return f"{card} paid {cents}"


async def order(card: str, cents: int) -> list[str]:
    "use workflow"
    prefix = f"order of {card}"

    async def ship(item: str) -> str:
        "use step"
        return f"{prefix}: {item}"

    receipt = await charge(card, cents)
    item = await wait_for_signal("item")
    return [receipt, await ship(item)]


async def test_directives_make_the_same_workflows_and_steps(stage: Stage) -> None:
    run = await stage.start(order, "tok", 42)
    await run.signal("item", "violin")
    assert await run.result(timeout=LIMIT) == ["tok paid 42", "order of tok: violin"]
    assert [entry.location for entry in await run.history()] == ["charge", "signal:item", "ship"]
