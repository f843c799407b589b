"""Small values from outside, taken once: an order number, and which machine took the order in.

`side_effect` is for what is quick and local; its value is recorded and never computed again. Anything that waits, or
that may have to be tried again, is a step. The time needs neither: `now()` is the same on every replay.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from tenuto import now, publish_state, side_effect, step, workflow

numbers = count(1001)  # stands for a sequence that gives every number once
ledger: list[tuple[int, str]] = []  # stands for the book-keeping


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    customer: str
    taken_by: str
    taken_at: datetime


@step
async def enter_in_ledger(number: int, customer: str) -> None:
    ledger.append((number, customer))


@workflow
async def take_order(customer: str) -> Order:
    number = await side_effect(lambda: next(numbers), name="order number")
    taken_by = await side_effect(platform.node, name="machine")
    order = Order(number, customer, taken_by, now())

    publish_state({"number": number, "status": "processing"})
    await enter_in_ledger(number, customer)
    publish_state({"number": number, "status": "entered"})
    return order
