"""A poller with timers and continue-as-new.

python examples/twf/poller.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tenuto import Tenuto
from tenuto.twf import Bindings, load_program

HERE = Path(__file__).parent
bindings = Bindings()
LOG: list[str] = []
LOOKS: list[int] = []


@bindings.function("target", pure=True)
def target() -> int:
    return 3


@bindings.activity("Look")
async def look(url: str, seen: int) -> int:
    LOOKS.append(seen)
    return len(LOOKS) // 2


@bindings.function("log.write")
def write(line: str) -> None:
    LOG.append(line)


async def main(url: str = "memory://") -> dict[str, Any]:
    load_program(HERE / "poller.twf", bindings=bindings)
    async with Tenuto(url) as app:
        run = await app.start("Poller", "https://example.org/feed", 0, "10ms")
        change: dict[str, Any] = await run.result(timeout="30s")
        print(change, LOG)
        return change


if __name__ == "__main__":
    asyncio.run(main())
