"""TWF605: work without suspending is bounded, whatever does the work (T121)."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tenuto.errors import QueryFailedError, RunFailedError
from tenuto.twf.run.settings import settings

from .conftest import World

SECONDS = 300.0  # far more than any of these takes on a busy machine; without fuel they take hours


async def parked(world: World, body: str, name: str = "W") -> str:
    """Run a program to its parking; the reason it gives."""
    world.load(body)
    begun = time.monotonic()
    run = await world.start(name)
    await world.engine.settle()
    assert time.monotonic() - begun < SECONDS
    assert await run.status() == "parked"
    return await run.reason() or ""


PROGRAM = """
workflow W():
    xs = range(100000)
    ys = range(100000)
    big = join(range(20000), "x")
    other = join(range(20000), "x")
    digits = join(range(1000), "")
    m = {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11, l: 12, m: 13, n: 14, o: 15, p: 16}
    for (i in range(90000)):
        r = EXPRESSION
"""


@pytest.mark.parametrize(
    "expression",
    [
        "sum(range(1000000))",
        "min(range(1000000))",
        "max(range(1000000))",
        "len(range(1000000))",
        "sorted(range(1000000))",
        "str(range(100000))",
        'join(range(10000), "-")',
        'split(big, "x")',
        "upper(big)",
        "trim(big)",
        "chunk(xs, 7)",
        "keys(m)",
        "append(xs, 1)",
        "contains(xs, 0 - 1)",
        "xs + xs",
        "big + 1",
        "xs == ys",
        "xs != ys",
        "big < other",
    ],
)
async def test_what_goes_through_lists_and_text_uses_fuel(world: World, expression: str) -> None:
    reason = await parked(world, PROGRAM.replace("EXPRESSION", expression))
    assert "TWF605" in reason
    assert "units of work" in reason


@pytest.mark.parametrize("expression", ["len(xs)", "has(m, big)", "get(m, big)", "xs[99999]", "xs == null", "xs == xs"])
async def test_what_only_glances_at_a_long_value_is_cheap(world: World, expression: str) -> None:
    world.load(PROGRAM.replace("EXPRESSION", expression).replace("range(90000)", "range(20000)"))
    assert await world.result("W") is None


async def test_the_line_that_used_up_the_fuel_is_named(world: World) -> None:
    reason = await parked(world, "workflow W():\n    for:\n        x = 1\n        y = sum(range(900000))\n")
    assert "line 4" in reason


async def test_a_loop_over_a_long_list_that_is_left_at_once_uses_fuel_for_the_list(world: World) -> None:
    reason = await parked(
        world,
        "workflow W():\n    xs = range(500000)\n    for:\n        for (x in xs):\n            break\n",
    )
    assert "TWF605" in reason


async def test_a_switch_compares_for_its_length(world: World) -> None:
    reason = await parked(
        world,
        """
workflow W():
    xs = range(300000)
    ys = range(300000)
    for:
        switch (xs):
            case ys:
                n = 1
""",
    )
    assert "TWF605" in reason


@pytest.mark.parametrize(
    "last", ["close str(b)", "close b == c", "close contains([b], c)", "close b", 'close join(b, ",")']
)
async def test_values_that_share_their_parts_cannot_hide_what_going_through_them_takes(world: World, last: str) -> None:
    doublings = "".join("    b = [b, b]\n    c = [c, c]\n" for _ in range(60))
    reason = await parked(world, f"workflow W() -> (x):\n    b = [1, 2]\n    c = [1, 2]\n{doublings}    {last}\n")
    assert "TWF605" in reason


@pytest.mark.parametrize("last", ["return str(b)", "return b", "return b == c"])
async def test_the_same_in_the_statements_of_an_activity_fails_it_at_once(world: World, last: str) -> None:
    doublings = "".join("    b = [b, b]\n    c = [c, c]\n" for _ in range(60))
    world.load(
        f"workflow W() -> (x):\n    activity A() -> r\n    close r\n\n"
        f"activity A() -> (x):\n    b = [1, 2]\n    c = [1, 2]\n{doublings}    {last}\n"
    )
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    assert getattr(raised.value.__cause__, "type", "") == "TWF605"


async def test_text_that_doubles_is_stopped_in_an_activity_too(world: World) -> None:
    doublings = "".join("    s = s + s\n" for _ in range(60))
    for head in ("", "    for (n in [1]):\n        k = 1\n"):
        world.load(
            "workflow W() -> (x):\n    activity A() -> r\n    close r\n\n"
            f'activity A() -> (x):\n    s = "ab"\n{head}{doublings}    return len(s)\n'
        )
        with pytest.raises(RunFailedError) as raised:
            await world.result("W")
        assert getattr(raised.value.__cause__, "type", "") == "TWF605"


async def test_a_long_separator_is_counted_for_every_item(world: World) -> None:
    reason = await parked(world, 'workflow W():\n    s = join(range(100000), "-")\n    t = join(range(1000000), s)\n')
    assert "TWF605" in reason


async def test_rounding_to_a_huge_power_of_ten_is_zero(world: World) -> None:
    world.load("workflow W() -> (x):\n    close round(5, -1000000000), round(1234, -2)\n")
    assert await world.result("W") == [0, 1200]


async def test_a_query_that_works_too_long_fails_for_its_caller(world: World) -> None:
    world.load(
        """
workflow W():
    query Q() -> (int):
        n = 0
        for:
            n = sum(range(1000000))
        return n
    await timer(1h)
"""
    )
    run = await world.start("W")
    with pytest.raises(QueryFailedError, match="units of work"):
        await run.query("Q")


@pytest.mark.parametrize(("passes", "status"), [(33_194, "completed"), (33_195, "parked")])
async def test_a_statement_a_pass_and_a_call_are_ten_units_each(world: World, passes: int, status: str) -> None:
    # The loop is a statement, `range` a call; the list is made and copied, a sixteenth of its length each time.
    assert settings.units == 1_000_000
    used = 10 + 10 + 2 * (passes // 16) + 30 * passes
    assert (used <= settings.units) == (status == "completed")
    world.load("workflow W(n: int):\n    for (x in range(n)):\n        y = abs(x)\n")
    run = await world.start("W", passes)
    await world.engine.settle()
    assert await run.status() == status


async def test_fuel_begins_anew_at_every_suspension(world: World) -> None:
    world.activity("A", 1)
    world.load(
        """
workflow W() -> (int):
    total = 0
    for (i in range(4)):
        total = total + sum(range(500000))
        total = total + sum(range(500000))
        activity A()
    close total

activity A():
    # bound
"""
    )
    assert await world.result("W") == 8 * sum(range(500_000))


async def test_built_ins_over_long_lists_give_what_they_gave(world: World) -> None:
    world.load(
        """
workflow W() -> (x):
    a = [sorted([3, 1.5, 2]), sorted(["b", "a"]), sorted([2m, 30s])]
    b = [max([1, 2.5]), min(3, 2), sum([0.1, 0.2, 0.3]), sum([1, 2]), sum([])]
    c = [[1, 2] == [1.0, 2], [true] == [1], contains([1, 2], 2.0), contains([1], true), contains([true], 1)]
    close a, b, c
"""
    )
    a, b, c = await world.result("W")
    assert a == [[1.5, 2, 3], ["a", "b"], [timedelta(seconds=30), timedelta(minutes=2)]]
    assert b == [2.5, 2, 0.1 + 0.2 + 0.3, 3, 0]
    assert c == [True, False, True, False, False]
