"""Messages, branches, handles and bodies: what follows from the rules beyond the numbered cases."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tenuto.errors import QueryFailedError, RunFailedError, TwfError, UpdateFailedError
from tenuto.twf.provider import TwfProvider

from .conftest import World

WORK = "\nactivity Work(x: any) -> (any):\n    # bound\n"


async def failing(world: World, name: str, *args: Any) -> Any:
    with pytest.raises(RunFailedError) as raised:
        await world.result(name, *args)
    return raised.value.__cause__


# --- messages


async def test_a_signal_with_wrong_arguments_that_gets_in_is_discarded_with_a_line_in_the_log(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    signal S(a: int, b: int):
        seen.append(a)
    seen = []
    await signal S -> (a, b)
    close seen, a, b
"""
    )
    run = await world.start("W")
    with pytest.raises(TwfError) as refused:
        await run.signal("S", 1)
    assert refused.value.code == "TWF505"
    await world.send(run, "signal", "S", 1)
    await world.send(run, "signal", "S", 1, 2)
    assert await run.result() == [[1], 1, 2]
    assert any("S was discarded" in notice for notice in world.engine.notices)


async def test_fewer_names_than_arguments_are_fine(world: World) -> None:
    world.load(
        "workflow W() -> (int):\n    signal S(a: int, b: int):\n        x = b\n    await signal S -> a\n    close a\n"
    )
    run = await world.start("W")
    await run.signal("S", 1, 2)
    assert await run.result() == 1


async def test_a_token_is_consumed_once_and_waiters_are_served_in_order(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    signal S(n: int):
        last = n
    got = []
    await all:
        if (true):
            await signal S -> a
            got.append("first " + a)
        if (true):
            await signal S -> b
            got.append("second " + b)
    close got
"""
    )
    run = await world.start("W")
    await run.signal("S", 1)
    await run.signal("S", 2)
    assert await run.result() == ["first 1", "second 2"]


async def test_an_update_can_be_awaited_by_the_body(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    update Name(text: string) -> (int):
        activity Work(text) -> r
        return len(text)
    await update Name -> text
    close text
"""
        + WORK
    )
    world.activity("Work", takes="1m")
    run = await world.start("W")
    assert await run.update("Name", "ada") == 3
    assert await run.result() == "ada"


async def test_a_handler_may_wait_for_another_message(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    signal Begin():
        await signal Go -> n
        order.append("begin " + n)
    signal Go(n: int):
        order.append("go " + n)
    order = []
    await signal Begin
    close order
"""
    )
    run = await world.start("W")
    await run.signal("Begin")
    await run.signal("Go", 7)
    assert await run.result() == ["go 7", "begin 7"]


async def test_a_handler_woken_by_one_that_still_runs_is_not_given_up(world: World) -> None:
    world.activity("Work", takes="5m")
    world.load(
        """
workflow W() -> (string):
    signal Go(n: int):
        activity Work(n)
    update Ask() -> (int):
        await signal Go -> n
        return n
    await timer(1m)
    close "bye"
"""
        + WORK
    )
    run = await world.start("W")
    await world.send(run, "update", "Ask", id="u")
    await run.signal("Go", 7)
    assert await run.result() == "bye"
    assert await run.update("Ask", id="u") == 7
    assert world.elapsed == 300


async def test_constructs_work_inside_handlers(world: World) -> None:
    world.activity("Work", lambda x: x * 10, takes=lambda x: f"{x}s")
    world.load(
        """
workflow W() -> (list):
    update Many(xs: list) -> (list):
        for (x in xs):
            if (x == 2):
                continue
            last = x
        await all:
            for (y in xs):
                activity Work(y) -> rs
        await one:
            timer(1h):
                return "late"
            activity Work(1) -> r:
                rs.append(r)
        return rs
    signal End():
        e = 1
    await signal End
    close last
"""
        + WORK
    )
    run = await world.start("W")
    assert await run.update("Many", [1, 2, 3]) == [10, 20, 30, 10]
    await run.signal("End")
    assert await run.result() == 3


async def test_a_failed_activity_in_a_signal_handler_fails_the_run_and_in_an_update_its_caller(world: World) -> None:
    world.activity("Work", fails=ValueError("no"))
    world.load(
        """
workflow W():
    signal S():
        activity Work(1)
    update U() -> (int):
        activity Work(2)
        return 1
    await timer(1h)
"""
        + WORK
    )
    run = await world.start("W")
    with pytest.raises(UpdateFailedError) as update:
        await run.update("U")
    cause: Any = update.value.__cause__
    assert (update.value.why, cause.type, cause.source, cause.line) == ("handler", "ValueError", "Work", 5)
    await run.signal("S")
    with pytest.raises(RunFailedError):
        await run.result()


async def test_a_query_has_names_of_its_own_and_its_faults_go_to_the_caller(world: World) -> None:
    world.load(
        """
workflow W():
    query Sum(from: int) -> (int):
        total = from
        for (n in ns):
            total += n
        return total
    query Broken() -> (int):
        return ns.x
    query Loop() -> (int):
        for:
            y = 1
    ns = [1, 2]
    await timer(1h)
    ns.append(3)
    await timer(1h)
"""
    )
    run = await world.start("W")
    assert await run.query("Sum", 10) == 13
    await world.engine.advance("90m")
    assert await run.query("Sum", 10) == 16
    for name, code in (("Broken", "TWF503"), ("Loop", "TWF605")):
        with pytest.raises(QueryFailedError) as raised:
            await run.query(name)
        cause: Any = raised.value.__cause__
        assert cause.code == code
    assert await run.result() is None


async def test_a_query_may_ask_about_the_run_itself(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    query About() -> (list):
        return workflow_id(), now() - started, history_length()
    started = now()
    await timer(1m)
    await timer(1m)
    close "done"
"""
    )
    run = await world.start("W", id="w-7")
    assert await run.query("About") == ["w-7", timedelta(0), 0]
    await world.engine.advance("90s")
    assert await run.query("About") == ["w-7", timedelta(minutes=1), 1]
    assert await run.result() == "done"
    assert await run.query("About") == ["w-7", timedelta(minutes=2), 2]


async def test_a_handler_that_cannot_go_on_parks_the_run_and_goes_on_after_a_deploy(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    signal S(n: int):
        seen.append(twice(n))
    seen = []
    await signal S -> n
    close seen, n
"""
    )
    run = await world.start("W")
    await run.signal("S", 4)
    await world.engine.settle()
    assert await run.status() == "parked"
    assert await run.history() == []
    world.b.function("twice", pure=True)(lambda n: n * 2)
    world.engine.reload()
    world.engine.wake(run.id)
    assert await run.result() == [[8], 4]


# --- await one and await all


async def test_a_finished_handle_and_a_token_decide_by_which_was_first(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    signal S():
        s = 1
    spawn workflow Kid() -> h
    await timer(1m)
    await one:
        signal S:
            close "signal"
        h:
            close "child"

workflow Kid():
    await timer(10s)
"""
    )
    late = await world.start("W")
    await world.engine.advance("20s")
    await late.signal("S")
    assert await late.result() == "child"
    early = await world.start("W")
    await early.signal("S")
    assert await early.result() == "signal"


async def test_a_losing_handle_can_be_awaited_again(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    spawn workflow Kid() -> h
    await one:
        h -> r:
            first = "child"
        timer(1s):
            first = "timer"
    await h -> r
    close first, r

workflow Kid() -> (int):
    await timer(10s)
    close 7
"""
    )
    assert await world.result("W") == ["timer", 7]


async def test_a_case_without_a_body_goes_on_behind_it(world: World) -> None:
    world.load("workflow W() -> (int):\n    await one:\n        timer(1s):\n        timer(5s):\n    close 3\n")
    assert await world.result("W") == 3
    assert world.elapsed == 1


async def test_an_await_all_can_be_a_case_and_is_cancelled_when_it_loses(world: World) -> None:
    world.activity("Work", takes="1h")
    world.load(
        """
workflow W() -> (string):
    await one:
        await all:
            activity Work(1)
            activity Work(2)
        timer(1m):
            close "late"
    close "both"
"""
        + WORK
    )
    assert await world.result("W") == "late"
    await world.settle()
    assert world.cancelled == ["Work", "Work"]


async def test_break_and_continue_pass_through_await_one(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    seen = []
    for (n in range(5)):
        await one:
            timer(1s):
                if (n == 1):
                    continue
                if (n == 3):
                    break
        seen.append(n)
    close seen
"""
    )
    assert await world.result("W") == [0, 2]


async def test_names_assigned_only_in_a_pass_are_private_to_it_and_others_shared(world: World) -> None:
    world.activity("Work", lambda x: x, takes=lambda x: f"{4 - x}s")
    world.load(
        """
workflow W() -> (map):
    count = 0
    await all:
        for (x in [1, 2, 3]):
            own = x * 100
            activity Work(x) -> r
            count += 1
            check.append(own + r)
            if (x == 2):
                activity Work(x) -> extra
    close {count: count, r: r, extra: extra, check: sorted(check)}
""".replace("    count = 0\n", "    count = 0\n    check = []\n")
        + WORK
    )
    assert await world.result("W") == {
        "count": 3,
        "r": [1, 2, 3],
        "extra": [None, 2, None],
        "check": [101, 202, 303],
    }


async def test_fan_outs_nest(world: World) -> None:
    world.activity("Work", lambda x: x)
    world.load(
        """
workflow W() -> (list):
    await all:
        for (x in [1, 2]):
            await all:
                for (y in [10, 20]):
                    activity Work(x * y) -> r
    close r
"""
        + WORK
    )
    run = await world.start("W")
    assert await run.result() == [[10, 20], [20, 40]]
    assert "all/0/[1]/all/0/[0]/Work" in [entry.location for entry in await run.history()]


async def test_branches_start_in_source_order_each_to_its_first_suspension(world: World) -> None:
    world.activity("Work", takes="1s")
    world.load(
        """
workflow W() -> (list):
    order = []
    await all:
        xs = [1, 2]
        for (x in xs):
            order.append("pass " + x)
            activity Work(x)
        if (true):
            order.append("last")
    close order
""".replace("    order = []\n", "    order = []\n    xs = []\n")
        + WORK
    )
    assert await world.result("W") == ["pass 1", "pass 2", "last"]


async def test_handles_in_a_list_are_awaited_in_a_loop(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    hs = []
    for (n in [1, 2, 3]):
        spawn workflow Kid(n) -> h
        hs.append(h)
    rs = []
    for (h in hs):
        await h -> r
        rs.append(r)
    close rs, h.workflow

workflow Kid(n: int) -> (int):
    await timer(1m)
    close n * 2
"""
    )
    assert await world.result("W") == [[2, 4, 6], "Kid"]
    assert world.elapsed == 60


async def test_awaiting_what_is_no_handle_is_a_fault(world: World) -> None:
    world.load("workflow W():\n    for (h in [1]):\n        await h\n")
    failure = await failing(world, "W")
    assert (failure.code, failure.line) == ("TWF502", 3)


async def test_children_that_fail_are_cancelled_or_terminated_raise(world: World) -> None:
    world.load(
        """
workflow W() -> (int):
    workflow Kid()
        options(workflowId: "kid")
    close 1

workflow Kid():
    await timer(1h)
"""
    )
    run = await world.start("W")
    await world.engine.advance("1m")
    await world.engine.get("kid").cancel()
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    failure: Any = raised.value.__cause__
    assert (failure.type, failure.source, failure.line) == ("Cancelled", "Kid", 2)


# --- closing


@pytest.mark.parametrize("exit_", ["close 5", "return 5", "close completed 5"])
async def test_every_way_out_of_a_branch_ends_the_body(world: World, exit_: str) -> None:
    world.load(
        f"""
workflow W() -> (int):
    for (n in [1]):
        await all:
            await timer(1h)
            for (x in [1, 2]):
                await timer(1m)
                {exit_}
    close 1
"""
    )
    assert await world.result("W") == 5
    assert world.elapsed == 60


async def test_continue_as_new_waits_for_handlers_and_takes_named_arguments(world: World) -> None:
    world.activity("Work", "w", takes="1m")
    world.load(
        """
workflow W(n: int, what: string) -> (list):
    update U() -> (any):
        activity Work(n) -> w
        return w
    if (n == 2):
        close n, what
    await timer(1s)
    continue_as_new(n + 1, what: what + "x")
"""
        + WORK
    )
    run = await world.start("W", 0, "a")
    await world.send(run, "update", "U", id="u")
    assert await run.result() == [2, "axx"]
    assert await run.update("U", id="u") == "w"
    assert world.elapsed == 61


async def test_arguments_that_no_longer_fit_the_next_text_fail_the_chain(world: World) -> None:
    world.load("workflow W(n: int):\n    await timer(1m)\n    continue_as_new(n + 1)\n")
    run = await world.start("W", 0)
    await world.engine.advance("10s")
    world.load("workflow W(n: int, m: int):\n    await timer(1m)\n")
    world.engine.reload()
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    failure: Any = raised.value.__cause__
    assert failure.code == "TWF505"


# --- activities


async def test_statements_of_an_activity_call_host_functions_async_ones_too(world: World) -> None:
    @world.b.function("db.get")
    async def get(key: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"name": key.upper(), "tags": ("a", "b")}

    world.b.function("log")(lambda *parts: world.calls.append(("log", parts)))
    world.load(
        """
workflow W() -> (list):
    activity Load(["x", "y"]) -> names
    close names

activity Load(ids: list) -> (list):
    names = []
    for (id in ids):
        row = db.get(id)
        log(row.name, len(row.tags))
        names.append(row.name)
    return names
"""
    )
    assert await world.result("W") == ["X", "Y"]
    assert world.calls == [("log", ("X", 2)), ("log", ("Y", 2))]


async def test_an_endless_activity_is_stopped_by_its_timeout(world: World) -> None:
    world.load(
        """
workflow W():
    activity Spin()
        options(startToCloseTimeout: 1s, retryPolicy: {maxAttempts: 1})

activity Spin():
    for:
        x = 1
"""
    )
    assert (await failing(world, "W")).type == "Timeout"


async def test_activity_info_and_several_heartbeat_values(world: World) -> None:
    world.load(
        """
workflow W() -> (list):
    activity Beat() -> r
    close r

activity Beat() -> (list):
    info = activity_info()
    if (info.attempt == 1):
        heartbeat(1, "two")
        fail("again")
    return get_heartbeat_details(), info.name, info.attempt
"""
    )
    assert await world.result("W") == [[1, "two"], "Beat", 2]


async def test_a_python_step_of_that_name_performs_an_activity(world: World) -> None:
    from tenuto import step

    @step(name="Shout")
    async def shout(text: str) -> str:
        return text.upper()

    world.load(
        'workflow W() -> (string):\n    activity Shout("a") -> r\n    close r\n\n'
        "activity Shout(text: string) -> (string):\n    return text\n"
    )
    assert await world.result("W") == "A"


async def test_functions_that_are_not_pure_park_workflow_code(world: World) -> None:
    world.b.function("db.get")(lambda key: key)
    world.load('workflow W() -> (any):\n    x = db.get("k")\n    close x\n')
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert "TWF602" in (await run.reason() or "")
    assert "not pure" in (await run.reason() or "")


async def test_a_missing_workflow_and_an_unknown_namespace_park(world: World) -> None:
    world.load('workflow A():\n    workflow Gone()\n\nworkflow B():\n    nexus "pay" workflow C()\n')
    for name, code in (("A", "TWF603"), ("B", "TWF604")):
        run = await world.start(name)
        await world.engine.settle()
        assert await run.status() == "parked"
        assert code in (await run.reason() or "")
        assert await run.history() == []


async def test_children_of_an_old_run_take_the_latest_text_or_the_parents_own(world: World) -> None:
    from tenuto.model.registry import default

    text = """
workflow P() -> (list):
    await timer(1m)
    workflow Kid() -> a
    close a

workflow Kid() -> (string):
    close "old"
"""
    world.load(text)
    first, second = await world.start("P"), await world.start("P")
    await world.engine.advance("10s")
    world.load(text.replace('"old"', '"new"'))
    world.engine.reload()
    assert await first.result() == "new"
    assert await second.result() == "new"
    third = await world.start("P")
    await world.engine.advance("10s")
    default.forget("Kid")
    default.forget("P")
    world.engine.reload()
    assert await third.result() == "new"
    assert default.provided(TwfProvider).library.programs
