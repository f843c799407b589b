"""The order that `tenuto demo` runs: a payment, a durable wait, an approval, and steps that say who did them."""

from __future__ import annotations

import os

from tenuto.errors import FatalError
from tenuto.model.decorators import step, workflow
from tenuto.model.messages import wait_for_signal
from tenuto.model.state import publish_state
from tenuto.model.timers import sleep

__all__ = ["charge", "order", "reserve", "ship"]


def _by() -> str:
    return f"process {os.getpid()}"


@step(name="reserve")
async def reserve(sku: str) -> str:
    """Keeps one of the stock for this order."""
    return f"{sku} reserved by {_by()}"


@step(name="charge")
async def charge(card: str, cents: int) -> str:
    """Takes the money: the step nobody wants to see twice."""
    if cents <= 0:
        raise FatalError("nothing to charge")
    return f"{cents / 100:.2f} charged to {card} by {_by()}"


@step(name="ship")
async def ship(sku: str) -> str:
    """Sends it."""
    return f"{sku} shipped by {_by()}"


@workflow(name="order")
async def order(sku: str, card: str, cents: int) -> list[str]:
    """Reserves, charges, waits for the bank and for somebody's approval, ships."""
    publish_state({"stage": "paying"})
    done = [await reserve(sku), await charge(card, cents)]
    publish_state({"stage": "settling"})
    await sleep("2s")  # the bank settles; the worker dies meanwhile
    publish_state({"stage": "waiting for approval"})
    approved_by = await wait_for_signal("approve")
    done.append(f"approved by {approved_by}")
    done.append(await ship(sku))
    publish_state({"stage": "done"})
    return done
