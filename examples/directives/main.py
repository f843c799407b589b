"""Starts one run and waits for it, on virtual time: two days pass at once."""

from __future__ import annotations

import asyncio

from parcels.models import Parcel
from parcels.orders import ship

from tenuto.testing import Engine


async def main() -> None:
    engine = Engine()
    run = await engine.start(ship, "ada", Parcel("Ghent", 1500), id="order-1")
    print(await run.result())
    engine.close()


if __name__ == "__main__":
    asyncio.run(main())
