"""A saga across children: bookings are runs of their own, undone when a later one fails.

python examples/twf/trip.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tenuto import Tenuto
from tenuto.twf import Bindings, load_program

HERE = Path(__file__).parent
bindings = Bindings()
RELEASED: list[str] = []


@bindings.activity("Reserve")
async def reserve(part: str, trip: dict[str, Any]) -> str | None:
    return None if part in trip["full"] else f"{part}-{trip['id']}"


@bindings.activity("Release")
async def release(reference: str) -> None:
    RELEASED.append(reference)


async def main(url: str = "memory://") -> dict[str, Any]:
    load_program(HERE / "trip.twf", bindings=bindings)
    async with Tenuto(url) as app:
        good = await app.start("Trip", {"id": "t1", "full": []})
        print(await good.result(timeout="30s"))
        bad = await app.start("Trip", {"id": "t2", "full": ["car"]})
        outcome: dict[str, Any] = await bad.result(timeout="30s")
        print(outcome, RELEASED)
        return outcome


if __name__ == "__main__":
    asyncio.run(main())
