"""Orders: what happens to a parcel from payment to arrival."""

from __future__ import annotations

import time

from parcels import carrier
from parcels.models import Parcel
from tenuto import sleep, step_options

__all__ = ["Depot", "charge", "ship", "ship_all"]


@step_options(max_attempts=5, no_retry=(PermissionError,))
async def charge(customer: str, cents: int) -> str:
    """Takes the money."""
    "use step"
    carrier.LOG.append(f"charge {customer}")
    return f"receipt-{customer}-{cents}"


async def ship(customer: str, parcel: Parcel, travel: str = "2 days") -> dict[str, object]:
    """One parcel, from payment to arrival."""
    "use workflow"
    started = time.time()
    cents = await carrier.quote(parcel)
    receipt = await charge(customer, cents)

    async def make_label(prefix: str = "P") -> str:
        "use step"
        return f"{prefix}-{customer}-{cents}"

    label = await make_label()
    tracking = await carrier.hand_over(parcel, label)
    await sleep(travel)
    await carrier.notify(customer, f"{tracking} has arrived")
    return {"receipt": receipt, "tracking": tracking, "days": round((time.time() - started) / 86_400)}


class Depot:
    """Steps can be static methods."""

    @staticmethod
    async def capacity(grams: int) -> int:
        "use step"
        return 20_000 - grams


async def ship_all(customer: str, parcels: list[Parcel]) -> list[int]:
    """What is left in the depot after each parcel."""
    "use workflow"
    left: list[int] = []
    for parcel in parcels:
        left.append(await Depot.capacity(parcel.grams))
    return left
