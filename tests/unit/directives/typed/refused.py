"""D100: what both checkers refuse, one thing per line that ends with `# refused`."""

from __future__ import annotations

from tenuto import as_workflow, step_options
from tenuto.testing import Engine


async def ride(km: int, note: str = "") -> str:
    "use workflow"
    return note * km


def plain(km: int) -> int:
    return km


@step_options(max_attemps=5)  # refused
async def price(km: int) -> int:
    "use step"
    return km


async def main(engine: Engine) -> None:
    await engine.start(ride, "3")  # refused
    await engine.start(ride)  # refused
    await engine.start(ride, 3, "x", "y")  # refused
    await engine.start(ride, 3, idd="o-1")  # refused
    await engine.start(plain, 3)  # refused
    as_workflow(ride).bind(3, nota="x")  # refused
    wrong: int = await (await engine.start(ride, 3)).result()  # refused
    assert wrong
