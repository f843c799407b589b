"""A report over many cities: fan-out with `await all`, fan-in by lists.

python examples/twf/report.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenuto import Tenuto
from tenuto.twf import Bindings, load_program

HERE = Path(__file__).parent
bindings = Bindings()
SKIES = {"Lisbon": ("clear", 27), "Oslo": ("cloudy", 12), "Rome": ("clear", 30)}


@dataclass
class Weather:
    city: str
    sky: str
    degrees: int


@bindings.activity("FetchWeather")
async def fetch_weather(city: str) -> Weather:
    await asyncio.sleep(0.001 * len(city))
    return Weather(city, *SKIES[city])


@bindings.activity("FetchHeadline")
async def fetch_headline() -> str:
    return "all quiet"


@bindings.function("best_of", pure=True)
def best_of(ratings: list[int]) -> int:
    return max(ratings, default=0)


async def main(url: str = "memory://") -> dict[str, Any]:
    load_program(HERE / "report.twf", bindings=bindings)
    async with Tenuto(url) as app:
        run = await app.start("Report", ["Lisbon", "Oslo", "Rome"])
        report: dict[str, Any] = await run.result(timeout="30s")
        print(report)
        return report


if __name__ == "__main__":
    asyncio.run(main())
