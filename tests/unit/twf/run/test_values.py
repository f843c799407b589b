"""Values, operators, built-in functions, and what crosses a run's border."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenuto.errors import RunFailedError, TwfError

from .conftest import World


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2.5", 3.5),
        ('1 + "a"', "1a"),
        ('"is " + true', "is true"),
        ("1m + 30s == 90s", True),
        ("90s - 1m == 30s", True),
        ("2 * 30s == 1m", True),
        ("1m * 0.5 == 30s", True),
        ("1h / 4 == 15m", True),
        ("-(5s) == 0s - 5s", True),
        ("7 % -3", -2),
        ("-7 % 3 + 0.5", 2.5),
        ("6 / 3", 2.0),
        ('"a" < "b" and "B" < "a"', True),
        ("1 < 2.5", True),
        ("1h > 59m", True),
        ("not 0", True),
        ('not "x"', False),
        ("null or 0 or [] or {} or 0s or false", False),
        ('1 and "x"', "x"),
        ("0 and missing()", 0),
        ("[1, [2]] == [1.0, [2.0]]", True),
        ("{a: 1} == {a: 1, b: null}", False),
        ('"1" == 1', False),
        ("null == false", False),
        ("A{x: 1} == B{x: 1}", True),
        ('{"a key": 1}["a key"]', 1),
        ("[10, 20][1]", 20),
        ("{a: {b: [1, 2]}}.a.b[0]", 1),
        ('len([1, 2]) + len({a: 1}) + len("abc")', 6),
        ("min(3, 1, 2) + max([1, 5])", 6),
        ("sum([1, 2, 3.5])", 6.5),
        ("sum([])", 0),
        ("sum([1m, 30s]) == 90s", True),
        ("abs(-3)", 3),
        ("round(2.6)", 3),
        ("range(3)", [0, 1, 2]),
        ("range(2, 4)", [2, 3]),
        ('str(1.5) + str(null) + str([1, "a"])', '1.5null[1, "a"]'),
        ('int("12") + int(3.9) + int(true)', 16),
        ('float("1.5")', 1.5),
        ("bool([])", False),
        ("keys({b: 1, a: 2})", ["b", "a"]),
        ("values({b: 1, a: 2})", [1, 2]),
        ('get({a: 1}, "b", 7)', 7),
        ('get(null, "b", 7)', 7),
        ('has({a: null}, "a")', True),
        ('contains([1, 2], 2.0) and contains("abc", "b") and contains({a: 1}, "a")', True),
        ("append([1], 2)", [1, 2]),
        ("sorted([3, 1, 2])", [1, 2, 3]),
        ('join(["a", 1], "-")', "a-1"),
        ('split("a,b", ",")', ["a", "b"]),
        ('upper("a") + lower("B") + trim(" c ")', "Abc"),
        ("chunk([1, 2, 3], 2)", [[1, 2], [3]]),
        ("500ms * 2 == 1s", True),
        ("str(90m) + str(1500ms)", "90m1500ms"),
    ],
)
async def test_an_expression_has_this_value(world: World, expression: str, value: object) -> None:
    world.load(f"workflow W() -> (any):\n    close {expression}\n")
    found = await world.result("W")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("y = nowhere", "TWF501"),
        ("y = 1 + null", "TWF502"),
        ("y = true + 1", "TWF502"),
        ('y = 1 < "a"', "TWF502"),
        ("y = [1] < [2]", "TWF502"),
        ("y = -true", "TWF502"),
        ("y = x[0]", "TWF502"),
        ('y = [1]["a"]', "TWF502"),
        ("y = [1][0 - 1]", "TWF504"),
        ("y = {a: 1}.b", "TWF503"),
        ('y = {a: 1}["b"]', "TWF503"),
        ("y = 1.a", "TWF503"),
        ("x.f = 1", "TWF503"),
        ("for (i in 5):\n        y = i", "TWF502"),
        ("await timer(x)", "TWF502"),
        ('await timer("soon")', "TWF502"),
        ("await timer(5 + 5)", "TWF502"),
        ("y = len(5)", "TWF502"),
        ("y = len()", "TWF505"),
        ("y = upper(1)", "TWF502"),
        ('y = int("x")', "TWF502"),
        ("y = 1 % 0", "TWF507"),
        ("y = 1m / 0s", "TWF507"),
        ("y = [1].pop()", "TWF502"),
        ("x.append(1)", "TWF502"),
        ("activity Pair() -> (a, b, c)", "TWF506"),
        ("activity Pair(1)", "TWF505"),
        ("now(1)", "TWF505"),
        ("await timer(99999999999999d)", "TWF502"),
        ("y = 1d * 1000000000000", "TWF502"),
        ("a = [1]\n    a.append(a)\n    y = str(a)", "TWF502"),
        ("a = [1]\n    a.append(a)\n    b = [1]\n    b.append(b)\n    y = a == b", "TWF502"),
    ],
)
async def test_a_fault_fails_the_run_at_its_line(world: World, statement: str, code: str) -> None:
    if statement == "y = 1.a":
        statement = "z = 1\n    y = z.a"
    world.load(
        f"workflow W() -> (any):\n    x = null\n    {statement}\n\nactivity Pair() -> (int, int):\n    return 1, 2\n"
    )
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    failure = raised.value.__cause__
    assert isinstance(failure, TwfError)
    assert (failure.code, failure.file) == (code, "flow.twf")
    assert failure.line in range(3, 9)


async def test_results_are_bound_to_several_names(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    activity Pair() -> (a, b)
    activity Map() -> (x, y)
    close a, b, x, y

activity Pair() -> (int, int):
    return 1, 2

activity Map() -> (map):
    return {y: 20, x: 10, z: 30}
"""
    )
    assert await world.result("W") == [1, 2, 10, 20]


async def test_places_are_assigned_and_changed(world: World) -> None:
    world.load(
        """
workflow W() -> (map):
    m = {list: [1, 2], n: 1}
    m.list[0] = 10
    m.n += 4
    m.n -= 1
    m.n *= 3
    m["new"] = {deep: 1}
    m.new.deep = "x"
    f = 7
    f /= 2
    m.f = f
    close m
"""
    )
    assert await world.result("W") == {"list": [10, 2], "n": 12, "new": {"deep": "x"}, "f": 3.5}


async def test_a_loop_goes_over_a_snapshot_and_keeps_its_last_value(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    xs = [1, 2, 3]
    seen = []
    for (x in xs):
        xs.append(9)
        seen.append(x)
    for (k in {b: 1, a: 2}):
        seen.append(k)
    close seen, x, k
"""
    )
    assert await world.result("W") == [[1, 2, 3, "b", "a"], 3, "a"]


async def test_switch_takes_the_first_equal_case(world: World) -> None:
    world.load(
        """
workflow W(x: any) -> (string):
    switch (x):
        case 1:
            r = "one"
        case {a: 1}:
            r = "map"
        case 1.0:
            r = "never"
        else:
            r = "else"
    close r
"""
    )
    assert [await world.result("W", value) for value in (1, 1.0, {"a": 1}, "x")] == ["one", "one", "map", "else"]


# --- the border


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list)
    due: timedelta = timedelta(0)
    note: str | None = None
    first: Line | None = None
    by_name: dict[str, Line] = field(default_factory=dict)


async def test_dataclasses_convert_both_ways(world: World) -> None:
    seen: list[Order] = []

    @world.b.activity("Take")
    async def take(order: Order, *more: Line) -> Order:
        seen.append(order)
        assert all(isinstance(one, Line) for one in more)
        order.lines.append(Line("new", 5))
        return order

    world.load(
        """
workflow W(order: Order) -> (Order):
    order.lines.append({sku: "b"})
    order.by_name.x = Line{sku: "x", count: 3}
    activity Take(order) -> taken
    taken.id = taken.id + "!"
    close taken

activity Take(order: Order) -> (Order):
    # bound
"""
    )
    found = await world.result("W", Order("1", [Line("a", 2)], timedelta(minutes=1), first=Line("f")))
    assert seen[0].lines[:2] == [Line("a", 2), Line("b")]
    assert seen[0].first == Line("f")
    assert seen[0].by_name == {"x": Line("x", 3)}
    assert found["id"] == "1!"
    assert found["lines"][2] == {"sku": "new", "count": 5}
    assert found["due"] == timedelta(minutes=1)


async def test_a_map_that_makes_no_dataclass_fails_without_another_attempt(world: World) -> None:
    @world.b.activity("Take")
    async def take(order: Order) -> None:
        world.calls.append(("Take", ()))

    world.load("workflow W():\n    activity Take({no: 1})\n\nactivity Take(order: Order):\n    # bound\n")
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    failure: Any = raised.value.__cause__
    assert (failure.code, failure.source) == ("TWF505", "Take")
    assert world.calls == []


async def test_what_crosses_the_border_is_a_copy(world: World) -> None:
    kept: list[Any] = []

    @world.b.activity("Keep")
    async def keep(items: list[int]) -> list[int]:
        kept.append(items)
        items.append(99)
        return items

    world.load(
        """
workflow W(xs: list) -> (list):
    activity Keep(xs) -> ys
    ys.append(5)
    close xs, ys

activity Keep(xs: list) -> (list):
    # bound
"""
    )
    given = [1]
    assert await world.result("W", given) == [[1], [1, 99, 5]]
    assert given == [1]
    assert kept == [[1, 99]]


async def test_tuples_timestamps_and_durations_come_in(world: World) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    world.activity("Give", lambda: {"pair": (1, 2), "when": when, "wait": timedelta(hours=2)})
    world.load(
        """
workflow W(wait: duration, at: timestamp) -> (list):
    activity Give() -> g
    close g.pair[1], g.when + g.wait, wait + 1m, at - g.when

activity Give() -> (map):
    # bound
"""
    )
    found = await world.result("W", "1h30m", "2026-01-02T01:00:00+00:00")
    assert found == [2, when + timedelta(hours=2), timedelta(minutes=91), timedelta(hours=1)]


async def test_the_run_s_own_functions_are_the_same_on_replay(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    a = uuid()
    r = random()
    t = now()
    await timer(1m)
    close a != uuid(), len(a), r == r and r < 1, now() - t, workflow_id(), history_length()
"""
    )
    run = await world.start("W", id="w-1")
    assert await run.result() == [True, 36, True, timedelta(minutes=1), "w-1", 1]


async def test_variables_that_grow_too_large_park_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenuto.twf.run.settings import settings

    monkeypatch.setattr(settings, "variable_bytes", 1_000_000)
    world.load('workflow W():\n    s = "x"\n    for (i in range(40)):\n        s = s + s\n')
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert "TWF605" in (await run.reason() or "")


async def test_a_list_that_contains_itself_is_a_fault(world: World) -> None:
    world.load("workflow W() -> (list):\n    a = [1]\n    a.append(a)\n    close a\n")
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    failure: Any = raised.value.__cause__
    assert failure.code == "TWF502"


async def test_a_pure_function_that_raises_fails_the_run_with_its_type(world: World) -> None:
    @world.b.function("check", pure=True)
    def check(n: int) -> int:
        raise LookupError("nothing there")

    world.load("workflow W() -> (int):\n    x = check(1)\n    close x\n")
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    failure: Any = raised.value.__cause__
    assert (failure.code, failure.type, failure.message, failure.line) == ("TWF500", "LookupError", "nothing there", 2)


@pytest.mark.parametrize(
    ("value", "type_name", "message"),
    [
        ('"plain"', "Failed", "plain"),
        ('E{error: "e"}', "E", "e"),
        ('E{reason: "r", status: 5}', "E", "r"),
        ("{status: 5}", "Failed", "5"),
        ("E{x: 1}", "E", "E"),
        ("42", "Failed", "Failed"),
        ("", "Failed", "Failed"),
    ],
)
async def test_close_failed_says_type_message_and_details(
    world: World, value: str, type_name: str, message: str
) -> None:
    world.load(f"workflow W():\n    x = 1\n    close failed {value}\n")
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    failure: Any = raised.value.__cause__
    assert (failure.code, failure.type, failure.message, failure.line) == ("TWF500", type_name, message, 3)
