"""A run in phases: a cart that is filled, charged, and then confirmed or given back.

Two `receive` blocks with ordinary code between them. In the first phase the cart takes updates, which answer their
caller, and a signal that ends the phase; in the second it takes the customer's decision, for a day at most. A message
that does not belong to the phase is refused (an update) or waits for its phase (a signal).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tenuto import Reject, Reply, Stop, Update, publish_state, receive, step, step_info, workflow

PRICES = {"violin": 129_900, "bow": 8_900, "rosin": 1_200}  # in cents; stands for a catalogue
charges: dict[str, int] = {}  # what the bank holds, by the key of the charge
outbox: list[str] = []  # stands for a mail server

Phase: TypeAlias = Literal["open", "charging", "confirming", "done", "refunded"]


@dataclass(frozen=True, slots=True)
class Cart:
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    phase: Phase
    item_count: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    key: str
    total: int


@step
async def charge(items: tuple[str, ...]) -> Charge:
    """The key is the same on every attempt, so a bank that knows keys takes the money once."""
    key = step_info().idempotency_key
    charges[key] = sum(PRICES[sku] for sku in items)
    return Charge(key, charges[key])


@step
async def refund(made: Charge) -> None:
    charges.pop(made.key, None)


@step
async def send_receipt(total: int) -> None:
    outbox.append(f"receipt for {total / 100:.2f}")


def must_be_in_the_catalogue(cart: Cart, sku: str) -> None:
    if sku not in PRICES:
        raise Reject(f"we do not sell {sku!r}")


def add_item(cart: Cart, sku: str) -> Reply[Cart]:
    filled = replace(cart, items=(*cart.items, sku))
    publish_state(Status("open", len(filled.items)))
    return Reply(len(filled.items), filled)


def remove_item(cart: Cart, sku: str) -> Reply[Cart]:
    left = replace(cart, items=tuple(item for item in cart.items if item != sku))
    publish_state(Status("open", len(left.items)))
    return Reply(len(left.items), left)


def checkout(cart: Cart) -> Stop[Cart]:
    return Stop(cart)


def confirm(confirmed: bool) -> Stop[bool]:
    return Stop(True, reply="thank you")


def cancel(confirmed: bool) -> Stop[bool]:
    return Stop(False, reply="the money is on its way back")


@workflow
async def shop() -> int | None:
    """The total that was paid, or None."""
    publish_state(Status("open", 0))
    cart, _ = await receive(
        Cart(),
        updates={"add_item": Update(add_item, must_be_in_the_catalogue), "remove_item": remove_item},
        signals={"checkout": checkout},
    )

    publish_state(Status("charging", len(cart.items)))
    made = await charge(cart.items)

    publish_state(Status("confirming", len(cart.items), made.total))
    confirmed, _ = await receive(False, updates={"confirm": confirm, "cancel": cancel}, timeout="1 day")

    if not confirmed:
        await refund(made)
        publish_state(Status("refunded", len(cart.items)))
        return None
    await send_receipt(made.total)
    publish_state(Status("done", len(cart.items), made.total))
    return made.total


@shop.query("status")
def status(published: Status | None) -> Status:
    return published or Status("open", 0)
