"""D099: what both checkers accept, and the types they infer."""

from __future__ import annotations

import asyncio
from typing import assert_type

from tenuto import as_step, as_workflow, step_options, workflow_options
from tenuto.testing import Engine, Run


@step_options(max_attempts=5)
async def price(km: int, rate: float = 0.5) -> float:
    "use step"
    return km * rate


def resize(image: bytes) -> bytes:
    "use step"
    return image


@workflow_options(queue="slow")
async def ride(km: int, note: str = "") -> str:
    "use workflow"
    both = await asyncio.gather(price(km), price(2 * km, rate=1))
    assert_type(both, tuple[float, float])
    image = await as_step(resize)(b"")
    assert_type(image, bytes)
    return f"{both} {note}"


class Mailer:
    @staticmethod
    async def digest(day: str) -> int:
        "use workflow"
        return len(day)


async def main(engine: Engine) -> None:
    run = await engine.start(ride, 3, "x", id="o-1")
    assert_type(run, Run[str])
    assert_type(await run.result(), str)
    assert_type(await engine.start(ride, 3), Run[str])
    assert_type(await engine.start(as_workflow(ride).bind(3, note="x"), id="o-2"), Run[str])
    assert_type(await engine.start(Mailer.digest, "mon"), Run[int])
    assert_type(await price(3), float)


@as_workflow(ride).query("status")
def status(state: str | None) -> str:
    return state or ""
