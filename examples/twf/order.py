"""An order with payment and approval: a TWF program and the Python functions behind it.

python examples/twf/order.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenuto import Tenuto
from tenuto.twf import Bindings, load_program

HERE = Path(__file__).parent
bindings = Bindings()


@dataclass
class Item:
    name: str
    price: int
    count: int = 1


@dataclass
class Customer:
    name: str
    email: str = ""
    card: str = "tok_ok"


@dataclass
class Order:
    customer: Customer
    items: list[Item] = field(default_factory=list)


@dataclass
class Receipt:
    id: str
    cents: int


class CardDeclined(Exception):
    """Trying again would not help."""


OUTBOX: list[tuple[str, str]] = []


@bindings.function("sum_of", pure=True)
def sum_of(items: list[Item]) -> int:
    return sum(item.price * item.count for item in items)


@bindings.activity("ReserveStock")
async def reserve(order: Order) -> dict[str, Any]:
    return {"shelf": "A7", "items": [item.name for item in order.items]}


@bindings.activity("ChargeCard")
async def charge(customer: Customer, total: int) -> Receipt:
    if customer.card == "tok_declined":
        raise CardDeclined(f"{customer.name}'s card was declined")
    return Receipt(f"rcpt-{customer.name}", total * 100)


@bindings.activity("Ship")
def ship(order: Order, reservation: dict[str, Any]) -> str:
    return f"{reservation['shelf']}-{len(order.items)}"


@bindings.function("mail.send")
def send_mail(address: str, text: str) -> None:
    OUTBOX.append((address, text))


async def main(url: str = "memory://") -> dict[str, Any]:
    load_program(HERE / "order.twf", bindings=bindings)
    order = Order(Customer("ada", "ada@example.org"), [Item("lamp", 900), Item("desk", 300)])
    async with Tenuto(url) as app:
        run = await app.start("OrderWorkflow", order)
        print(await run.query("Status"))
        print("approved by", await run.update("Approve", "grace"))
        outcome: dict[str, Any] = await run.result(timeout="30s")
        print(outcome, OUTBOX)
        return outcome


if __name__ == "__main__":
    asyncio.run(main())
