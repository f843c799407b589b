"""A shopping cart as an entity: signals change it, queries read it, an update ends it.

python examples/twf/cart.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tenuto import Tenuto
from tenuto.twf import Bindings, load_program

HERE = Path(__file__).parent
bindings = Bindings()
REMINDED: list[str] = []


@bindings.function("items_in", pure=True)
def items_in(lines: dict[str, int]) -> int:
    return sum(lines.values())


@bindings.activity("PlaceOrder")
async def place_order(owner: str, lines: dict[str, int], address: str) -> str:
    return f"{owner}-{sum(lines.values())}"


@bindings.activity("Remind")
async def remind(owner: str) -> None:
    REMINDED.append(owner)


async def main(url: str = "memory://") -> dict[str, Any]:
    load_program(HERE / "cart.twf", bindings=bindings)
    async with Tenuto(url) as app:
        cart = await app.start("Cart", "ada", id="cart-ada")
        print(await cart.update("Checkout", "nowhere"))
        await cart.signal("Add", "tea", 2)
        await cart.signal("Add", "milk", 1)
        answer = await cart.update("Checkout", "Elm Street 1")
        summary: dict[str, Any] = await cart.result(timeout="30s")
        print(answer, summary, await cart.query("Lines"))
        return summary


if __name__ == "__main__":
    asyncio.run(main())
