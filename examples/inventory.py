"""Updates that take their time: a stock that asks for prices while it goes on serving.

The handler of `restock` returns `Async`: its function calls a slow step beside other messages and then changes the
state by `update_state`, which sees what the state has become meanwhile. The caller gets its answer when that is done.
Selling needs nobody else and is answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenuto import Async, Reject, Reply, Stop, Update, publish_state, receive, step, update_state, workflow

price_list: dict[str, int] = {"violin": 129_900, "bow": 8_900}  # in cents; stands for a supplier's service


@dataclass(frozen=True, slots=True)
class Shelf:
    quantity: int
    price: int


Stock = dict[str, Shelf]


@step
async def current_price(sku: str) -> int:
    return price_list[sku]


def restock(stock: Stock, sku: str, quantity: int) -> Async[Stock]:
    async def look_up_and_add() -> Shelf:
        price = await current_price(sku)

        def add(present: Stock) -> tuple[Shelf, Stock]:
            before = present[sku].quantity if sku in present else 0
            shelf = Shelf(before + quantity, price)
            changed = {**present, sku: shelf}
            publish_state(changed)
            return shelf, changed

        return update_state(add)

    return Async(look_up_and_add, stock)


def must_be_on_the_shelf(stock: Stock, sku: str, quantity: int) -> None:
    left = stock[sku].quantity if sku in stock else 0
    if left < quantity:
        raise Reject(f"only {left} of {sku!r} left")


def sell(stock: Stock, sku: str, quantity: int) -> Reply[Stock]:
    shelf = replace(stock[sku], quantity=stock[sku].quantity - quantity)
    changed = {**stock, sku: shelf}
    publish_state(changed)
    return Reply(shelf.price * quantity, changed)


def close(stock: Stock) -> Stop[Stock]:
    return Stop(stock)


@workflow
async def inventory() -> Stock:
    """What is left when it closes; restocking under way is finished first."""
    empty: Stock = {}
    publish_state(empty)
    left, _ = await receive(
        empty,
        updates={"restock": restock, "sell": Update(sell, must_be_on_the_shelf)},
        signals={"close": close},
    )
    return left


@inventory.query("quantity")
def quantity(published: Stock | None, sku: str) -> int:
    return published[sku].quantity if published and sku in published else 0
