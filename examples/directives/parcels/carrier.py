"""The carrier: every public function of this module is a step."""

from __future__ import annotations

"use step"

from parcels.models import Parcel  # noqa: E402  # the directive comes first

_PRICE_PER_KILOGRAM = 400

LOG: list[str] = []  # what happened, for the tests


async def quote(parcel: Parcel, express: bool = False) -> int:
    """The price in cents."""
    LOG.append(f"quote {parcel.to}")
    cents = parcel.grams * _PRICE_PER_KILOGRAM // 1000
    return cents * 2 if express else cents


async def hand_over(parcel: Parcel, label: str) -> str:
    """Gives the parcel to the carrier."""
    LOG.append(f"hand over {label}")
    return f"{label}@{parcel.to}"


async def notify(who: str, text: str) -> None:
    """Tells somebody."""
    LOG.append(f"notify {who}: {text}")
