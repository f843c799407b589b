from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Order:
    id: int

async def load(order: Order, depth: int = 1) -> Order:
    "use step"
    return order

async def process(order: Order) -> Order:
    "use workflow"
    found: Order = await load(order)
    return found
