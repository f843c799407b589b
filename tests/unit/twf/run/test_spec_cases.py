"""The execution cases T001 to T122, each also with a crash and replay after every turn."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.errors import (
    QueryFailedError,
    RunCancelledError,
    RunFailedError,
    TwfError,
    UpdateFailedError,
    UpdateRejectedError,
)

from .conftest import World

PAY = """
workflow Pay(n: int) -> (int):
    activity Double(n) -> d
    await timer(10m)
    close d + 1

activity Double(x: int) -> (int):
    return x * 2
"""

ACCOUNT = """
workflow Account(opening: int) -> (int):
    signal Deposit(amount: int):
        balance = balance + amount
    signal Close():
        done = true
    query Balance() -> (int):
        return balance
    update Withdraw(amount: int) -> (int):
        if (amount > balance):
            return -1
        balance = balance - amount
        return balance
    balance = opening
    await signal Close
    close balance
"""

ORDERS = """
workflow Orders() -> (int):
    signal Add(k: int):
        activity Check(k)
        total = total + k
    total = 0
    for (total < 6):
        await one:
            signal Add -> (k):
                last = k
            timer(1h):
                close failed "slow"
    close total + last * 100

activity Check(k: int):
"""

RACE = """
workflow Race() -> (string):
    await one:
        activity Slow() -> r:
            close r
        timer(5m):
            close "late"

activity Slow() -> (string):
"""

FAN = """
workflow Fan(xs: []int) -> (Out):
    n = 0
    await all:
        for (x in xs):
            activity Sq(x) -> rs
            n = n + 1
    close rs, n

activity Sq(x: int) -> (int):
"""

PARENT = """
workflow Parent() -> (int):
    spawn workflow Kid(2) -> h
    activity Note()
    await h -> a
    await h -> b
    close a + b

workflow Kid(n: int) -> (int):
    await timer(1m)
    close n * 10

activity Note():
"""

COUNT = """
workflow Count(n: int) -> (int):
    signal Tick():
        seen = n
    if (n >= 2):
        close n
    await signal Tick
    continue_as_new(n + 1)
"""

BYE = """
workflow Bye() -> (string):
    update Slow() -> (string):
        activity Work() -> w
        return w
    await timer(1m)
    close "bye"

activity Work() -> (string):
"""


def empty(text: str) -> str:
    """Activities declared without statements need a comment line to be a block."""
    lines = text.strip("\n").split("\n")
    return (
        "\n".join(
            f"{line}\n    # bound" if line.startswith("activity") and line is lines[-1] else line for line in lines
        )
        + "\n"
    )


async def locations(run: Any) -> list[str]:
    return [entry.location for entry in await run.history()]


# --- T001 to T006


async def test_t001_a_workflow_runs_a_step_and_a_timer(world: World) -> None:
    world.load(PAY)
    run = await world.start("Pay", 3)
    assert await run.result() == 7
    assert world.elapsed == 600
    assert [(entry.location, entry.kind) for entry in await run.history()] == [("Double", "step"), ("timer", "sleep")]


async def test_t002_a_recorded_activity_is_not_executed_again_and_the_deadline_stays(world: World) -> None:
    world.activity("Double", lambda n: n * 2)
    world.load(PAY)
    run = await world.start("Pay", 3)
    await world.engine.advance("4m")
    world.engine.crash()
    assert await run.result() == 7
    assert world.count("Double") == 1
    assert world.elapsed == 600


async def test_t003_a_bound_function_wins_over_the_body(world: World) -> None:
    world.activity("Double", 100)
    world.load(PAY)
    assert await world.result("Pay", 3) == 101


async def test_t004_a_failed_activity_fails_the_run_with_its_place(world: World, failure: Any) -> None:
    world.activity("Double", fails=ValueError("no"))
    world.load(PAY)
    with pytest.raises(RunFailedError) as raised:
        await world.result("Pay", 3)
    found = failure(raised.value)
    assert isinstance(found, TwfError)
    assert (found.code, found.type, found.message, found.source) == ("TWF500", "ValueError", "no", "Double")
    assert (found.file, found.line) == ("flow.twf", 2)
    assert world.count("Double") == 3


async def test_t005_a_fault_in_a_body_is_not_retried(world: World, failure: Any) -> None:
    world.load(PAY)
    run = await world.start("Pay", "x")
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    assert failure(raised.value).code == "TWF502"
    (entry,) = await run.history()
    assert entry.attempts in (None, 0, 1)


async def test_t006_wrong_start_arguments_are_refused_at_the_start(world: World) -> None:
    world.load(PAY)
    with pytest.raises(TwfError) as raised:
        await world.start("Pay")
    assert raised.value.code == "TWF505"
    assert await world.engine.store.runs() == []


# --- T010 to T018


async def test_t010_the_body_runs_before_messages_that_were_there_first(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await world.send(run, "signal", "Deposit", 5)
    await world.send(run, "signal", "Close")
    assert await run.result() == 15


async def test_t011_updates_answer_and_the_same_id_answers_the_same(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    assert await run.update("Withdraw", 100) == -1
    assert await run.update("Withdraw", 4, id="second") == 6
    assert await run.update("Withdraw", 4, id="second") == 6
    assert await run.query("Balance") == 6


async def test_t012_queries_answer_before_and_after_the_end(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    assert await run.query("Balance") == 10
    await run.update("Withdraw", 4)
    assert await run.query("Balance") == 6
    await run.signal("Close")
    assert await run.result() == 6
    world.engine.crash()
    assert await run.query("Balance") == 6


async def test_t013_unknown_updates_and_wrong_arguments_are_rejected_without_history(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await world.engine.settle()
    before = await run.history()
    with pytest.raises(UpdateRejectedError) as unknown:
        await run.update("Nope")
    assert unknown.value.why == "not_accepting"
    assert "Withdraw" in (unknown.value.reason or "")
    with pytest.raises(UpdateRejectedError) as wrong:
        await run.update("Withdraw")
    assert wrong.value.why == "validator"
    assert await run.history() == before


async def test_t014_an_undeclared_signal_is_kept_and_changes_nothing(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await run.signal("Nope", 1)
    await run.signal("Close")
    assert await run.result() == 10


async def test_t015_a_failed_update_goes_to_the_caller_and_the_run_goes_on(world: World, failure: Any) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    with pytest.raises(UpdateFailedError) as raised:
        await run.update("Withdraw", None)
    assert failure(raised.value).code == "TWF502"
    await run.signal("Close")
    assert await run.result() == 10


async def test_t016_a_failed_signal_handler_fails_the_run_at_its_line(world: World, failure: Any) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await run.signal("Deposit", None)
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    found = failure(raised.value)
    assert (found.code, found.line) == ("TWF502", 3)


async def test_t017_nothing_is_dispatched_after_the_exit(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await world.send(run, "signal", "Close")
    await world.send(run, "signal", "Deposit", 1)
    assert await run.result() == 10
    assert await locations(run) == ["signal:Close!0"]


async def test_t018_the_other_order_counts(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    await world.send(run, "signal", "Deposit", 1)
    await world.send(run, "signal", "Close")
    assert await run.result() == 11


# --- T020 to T023


async def test_t020_handlers_overlap_and_tokens_come_in_the_order_of_finishing(world: World) -> None:
    world.activity("Check", takes=lambda k: f"{4 - k}s")
    world.load(empty(ORDERS))
    run = await world.start("Orders")
    for k in (1, 2, 3):
        await run.signal("Add", k)
    assert await run.result() == 106
    assert world.elapsed == 3


async def test_t021_a_handler_that_has_not_finished_does_not_beat_the_timer(world: World, failure: Any) -> None:
    world.activity("Check", takes="2h")
    world.load(empty(ORDERS))
    run = await world.start("Orders")
    await run.signal("Add", 9)
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    assert failure(raised.value).message == "slow"
    assert world.elapsed == 3600
    await world.settle()
    assert world.cancelled == ["Check"]


async def _down_from_59m_to_2h(world: World, run: Any) -> None:
    await world.engine.advance("59m")
    await world.send(run, "signal", "Add", 6)
    world.engine.crash()
    world.engine._awake.clear()  # nobody looks
    world.engine.now_ms = world.started + 2 * 3_600_000
    world.engine.wake(run.id)


async def test_t022_the_dispatch_comes_before_the_timer_but_its_activity_after_it(world: World, failure: Any) -> None:
    world.activity("Check")
    world.load(empty(ORDERS))
    run = await world.start("Orders")
    await _down_from_59m_to_2h(world, run)
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    assert failure(raised.value).message == "slow"


async def test_t023_a_signal_stored_before_the_deadline_beats_the_timer(world: World) -> None:
    world.load(ORDERS.replace("        activity Check(k)\n", "").replace("\nactivity Check(k: int):\n", ""))
    run = await world.start("Orders")
    await _down_from_59m_to_2h(world, run)
    assert await run.result() == 606


# --- T030 to T035


async def test_t030_the_activity_wins_and_the_timer_is_gone(world: World) -> None:
    world.activity("Slow", "done", takes="1m")
    world.load(empty(RACE))
    run = await world.start("Race")
    assert await run.result() == "done"
    assert world.elapsed == 60
    assert [entry.location for entry in await run.history() if entry.kind == "sleep"] == []


async def test_t031_the_timer_wins_and_the_activity_is_asked_to_cancel(world: World) -> None:
    world.activity("Slow", "done", takes="10m")
    world.load(empty(RACE))
    run = await world.start("Race")
    assert await run.result() == "late"
    assert world.elapsed == 300
    await world.settle()
    assert world.cancelled == ["Slow"]


async def test_t032_the_first_to_finish_wins_failure_included(world: World, failure: Any) -> None:
    world.activity("Slow", fails=RuntimeError("broken"), takes="20s")
    world.load(empty(RACE))
    with pytest.raises(RunFailedError) as raised:
        await world.result("Race")
    found = failure(raised.value)
    assert (found.type, found.message, found.source) == ("RuntimeError", "broken", "Slow")


async def test_t033_a_race_in_a_second_pass_has_entries_of_its_own(world: World) -> None:
    world.activity("Slow", lambda: len(world.calls), takes="1m")
    world.load(
        empty(
            """
workflow Twice() -> (list):
    seen = []
    for (n in [1, 2]):
        await one:
            activity Slow() -> r:
                seen.append(r)
            timer(5m):
                close "late"
    close seen

activity Slow() -> (int):
"""
        )
    )
    run = await world.start("Twice")
    assert await run.result() == [1, 2]
    assert await locations(run) == ["for/~0/one/0/Slow", "for/~0/one", "for/~1/one/0/Slow", "for/~1/one"]


async def test_t034_a_queued_token_wins_and_the_activity_never_starts(world: World) -> None:
    world.activity("Slow", "done")
    world.activity("First", takes="1m")
    world.load(
        """
workflow Queued() -> (string):
    signal Go(what: string):
        heard = what
    activity First()
    await one:
        activity Slow() -> r:
            close r
        signal Go -> what:
            close what

activity Slow() -> (string):
    # bound

activity First():
    # bound
"""
    )
    run = await world.start("Queued")
    await run.signal("Go", "signal")
    assert await run.result() == "signal"
    assert world.count("Slow") == 0


async def test_t035_the_token_that_finished_first_wins_whatever_the_text_says(world: World) -> None:
    world.load(
        """
workflow Two() -> (list):
    signal A(n: int):
        a = n
    signal B(n: int):
        b = n
    await timer(1m)
    await one:
        signal A -> n:
            first = "A"
        signal B -> n:
            first = "B"
    await one:
        signal A -> n:
            second = "A"
        signal B -> n:
            second = "B"
    close first, second
"""
    )
    run = await world.start("Two")
    await run.signal("B", 1)
    await run.signal("A", 2)
    assert await run.result() == ["B", "A"]


# --- T040 to T043


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_t040_results_come_in_pass_order_whoever_finishes_first(world: World, order: tuple[int, ...]) -> None:
    world.activity("Sq", lambda x: x * x, takes=lambda x: f"{order.index(x) + 1}s")
    world.load(empty(FAN))
    run = await world.start("Fan", [1, 2, 3])
    assert await run.result() == [[1, 4, 9], 3]
    found = await locations(run)
    assert sorted(found) == ["all", "all/0/[0]/Sq", "all/0/[1]/Sq", "all/0/[2]/Sq"]  # T043


async def test_t041_no_passes_give_an_empty_list(world: World) -> None:
    world.activity("Sq")
    world.load(empty(FAN))
    assert await world.result("Fan", []) == [[], 0]


async def test_t042_a_failed_branch_cancels_the_others(world: World, failure: Any) -> None:
    async def square(x: int) -> int:
        world.calls.append(("Sq", (x,)))
        if x == 2:
            raise ValueError("two")
        try:
            await world.engine.takes("1h")
        except BaseException:
            world.cancelled.append(f"Sq {x}")
            raise
        return x * x

    world.b.activity("Sq", max_attempts=2)(square)
    world.activity("After")
    world.load(
        empty(FAN).replace("    close rs, n", "    activity After()\n    close rs, n")
        + "\nactivity After():\n    # bound\n"
    )
    with pytest.raises(RunFailedError) as raised:
        await world.result("Fan", [1, 2, 3])
    assert failure(raised.value).message == "two"
    await world.settle()
    assert world.cancelled == ["Sq 1", "Sq 3"]
    assert world.count("After") == 0


# --- T050 to T053 (T054 is in the acceptance tests: it needs two stores)


async def test_t050_a_handle_gives_the_same_result_at_every_await(world: World) -> None:
    world.activity("Note")
    world.load(empty(PARENT))
    run = await world.start("Parent")
    assert await run.result() == 40
    assert len(await world.engine.store.runs()) == 2


async def test_t051_a_failed_child_fails_its_parent_with_its_own_type(world: World, failure: Any) -> None:
    world.activity("Note")
    world.load(empty(PARENT).replace("close n * 10", 'close failed E{message: "x"}'))
    with pytest.raises(RunFailedError) as raised:
        await world.result("Parent")
    found = failure(raised.value)
    assert (found.type, found.message, found.source, found.line) == ("E", "x", "Kid", 4)
    assert found.details == {"message": "x"}
    assert world.count("Note") == 1


@pytest.mark.parametrize(("word", "bound", "ends"), [("spawn", " -> h", "cancelled"), ("detach", "", "completed")])
async def test_t052_t053_an_open_child_is_cancelled_unless_detached(
    world: World, word: str, bound: str, ends: str
) -> None:
    kid = "workflow Kid(n: int) -> (int):\n    await timer(1m)\n    close n * 10\n"
    world.load(f"workflow Parent():\n    {word} workflow Kid(2){bound}\n    close\n\n{kid}")
    run = await world.start("Parent")
    assert await run.result() is None
    child = next(record for record in await world.engine.store.runs() if record.target == "Kid")
    await world.engine.advance("2m")
    assert await world.engine.get(child.id).status() == ends


# --- T060 to T062


async def test_t060_signals_not_dispatched_go_on_to_the_next_run(world: World) -> None:
    world.load(COUNT)
    run = await world.start("Count", 0)
    for _ in range(3):
        await world.send(run, "signal", "Tick")
    assert await run.result() == 2
    assert len(await world.engine.store.runs()) == 1
    rows = await world.engine.rows(run.id)
    assert rows.counters.generation == 2
    assert [mail.name for _, mail in rows.mail] == ["Tick"]


async def test_t061_a_token_goes_on_as_a_token_and_its_handler_does_not_run_again(world: World) -> None:
    world.activity("Seen")
    world.load(
        """
workflow Carry(n: int) -> (list):
    signal Go(what: string):
        activity Seen(what)
    if (n == 1):
        await signal Go -> what
        close what, n
    await timer(1m)
    continue_as_new(n + 1)

activity Seen(what: string):
    # bound
"""
    )
    run = await world.start("Carry", 0)
    await run.signal("Go", "it")
    assert await run.result() == ["it", 1]
    assert world.count("Seen") == 1


async def test_t062_an_update_not_dispatched_is_answered_by_the_next_run(world: World) -> None:
    world.load(
        """
workflow Again(n: int) -> (int):
    signal Go():
        ready = true
    update Ask() -> (int):
        return n
    await signal Go
    if (n == 1):
        close n
    continue_as_new(n + 1)
"""
    )
    run = await world.start("Again", 0)
    await world.send(run, "signal", "Go")
    await world.send(run, "update", "Ask", id="u")
    assert await run.update("Ask", id="u") == 1
    await run.signal("Go")
    assert await run.result() == 1


# --- T070 to T074


async def _ask(world: World, run: Any, at: str, id: str = "u") -> None:  # noqa: A002
    await world.engine.advance(at)
    await world.send(run, "update", "Slow", id=id)
    await world.engine.settle()


async def test_t070_t072_running_handlers_finish_and_later_updates_are_rejected(world: World) -> None:
    world.activity("Work", "w", takes="5m")
    world.load(empty(BYE))
    run = await world.start("Bye")
    await _ask(world, run, "30s")
    await _ask(world, run, "90s", id="late")
    with pytest.raises(UpdateRejectedError) as late:
        await run.update("Slow", id="late")
    assert late.value.why == "closed"
    assert await run.result() == "bye"
    assert world.elapsed == 330
    assert await run.update("Slow", id="u") == "w"


async def test_t071_a_failing_run_fails_its_open_updates(world: World, failure: Any) -> None:
    world.activity("Work", "w", takes="5m")
    world.load(empty(BYE).replace('close "bye"', 'close failed "x"'))
    run = await world.start("Bye")
    await _ask(world, run, "30s")
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    assert failure(raised.value).message == "x"
    assert world.elapsed == 60
    with pytest.raises(UpdateFailedError) as update:
        await run.update("Slow", id="u")
    assert update.value.why == "closed"


async def test_t073_a_handler_that_only_a_message_could_wake_is_cancelled(world: World) -> None:
    world.load(
        """
workflow Wait() -> (string):
    signal Other():
        o = 1
    update Slow() -> (string):
        await signal Other
        return "never"
    await timer(1m)
    close "bye"
"""
    )
    run = await world.start("Wait")
    await _ask(world, run, "30s")
    assert await run.result() == "bye"
    assert world.elapsed == 60
    with pytest.raises(UpdateFailedError) as update:
        await run.update("Slow", id="u")
    assert update.value.why == "closed"


async def test_t074_a_return_in_a_branch_ends_the_body_at_once(world: World) -> None:
    world.load(
        """
workflow Leave() -> (int):
    await all:
        await timer(1h)
        if (true):
            await timer(1m)
            return 5
    close 1
"""
    )
    run = await world.start("Leave")
    assert await run.result() == 5
    assert world.elapsed == 60


# --- T080 to T083


def _failing(world: World, times: int) -> None:
    async def work() -> str:
        world.calls.append(("Work", ()))
        if world.count("Work") <= times:
            raise ValueError("not yet")
        return "done"

    world.b.activity("Work")(work)


@pytest.mark.parametrize("policy", ["{max_attempts: 5}", "Retry{maximumAttempts: 5}", "{maximum_attempts: 0}"])
async def test_t080_attempts_are_options(world: World, policy: str) -> None:
    _failing(world, 4)
    world.load(
        f"""
workflow Try() -> (string):
    activity Work() -> w
        options(retryPolicy: {policy})
    close w

activity Work() -> (string):
    # bound
"""
    )
    assert await world.result("Try") == "done"
    assert world.count("Work") == 5


async def test_t081_the_call_goes_before_the_definition(world: World) -> None:
    _failing(world, 1)
    world.load(
        """
workflow Try() -> (string):
    activity Work() -> w
        options(retryPolicy: {maxAttempts: 1})
    close w

activity Work() -> (string):
    options(retryPolicy: {maxAttempts: 5})
    # bound
"""
    )
    with pytest.raises(RunFailedError):
        await world.result("Try")
    assert world.count("Work") == 1


async def test_t082_names_in_option_strings_are_replaced(world: World) -> None:
    world.activity("Ship", "shipped")
    world.load(
        """
workflow Send(order: Order) -> (string):
    activity Ship(order.id) -> s
        options(taskQueue: "t-{order.tenant}")
    close s

activity Ship(id: string) -> (string):
    # bound
"""
    )
    run = await world.start("Send", {"id": "1", "tenant": "acme"})
    queues: list[str] = []
    kept = world.engine.store.commit

    async def commit(turn: Any) -> Any:
        queues.extend(task.queue for task in turn.tasks)
        return await kept(turn)

    world.engine.store.commit = commit  # type: ignore[method-assign]
    assert await run.result() == "shipped"
    assert queues == ["t-acme"]
    assert world.calls == [("Ship", ("1",))]


async def test_t083_an_attempt_over_its_time_is_made_again(world: World) -> None:
    async def work() -> str:
        world.calls.append(("Work", ()))
        if world.count("Work") == 1:
            await world.engine.takes("1h")
            return "late"
        return "in time"

    world.b.activity("Work")(work)
    world.load(
        """
workflow Try() -> (string):
    activity Work() -> w
        options(startToCloseTimeout: 1s)
    close w

activity Work() -> (string):
    # bound
"""
    )
    assert await world.result("Try") == "in time"
    assert world.count("Work") == 2


# --- T090 to T093


async def test_t090_heartbeat_details_reach_the_next_attempt(world: World) -> None:
    world.load(
        """
workflow Beat() -> (map):
    activity Work() -> w
    close w

activity Work() -> (map):
    details = get_heartbeat_details()
    if (details == null):
        heartbeat(index: 3)
        fail("once")
    return details
"""
    )
    assert await world.result("Beat") == {"index": 3}


async def test_t091_an_unbound_function_parks_and_the_run_completes_once_it_is_bound(world: World) -> None:
    world.load(
        """
workflow Look() -> (int):
    activity Get("k") -> v
    close v

activity Get(k: string) -> (int):
    return db.get(k)
"""
    )
    run = await world.start("Look")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert "TWF602" in (await run.reason() or "")
    assert await run.history() == []
    world.b.function("db.get")(lambda key: {"k": 42}[key])
    world.engine.reload()
    world.engine.wake(run.id)
    assert await run.result() == 42


async def test_t092_fail_without_retry_is_one_attempt(world: World, failure: Any) -> None:
    world.load(
        """
workflow Bad() -> (int):
    activity Work() -> v
    close v

activity Work() -> (int):
    fail("bad", type: "Bad", retryable: false)
"""
    )
    run = await world.start("Bad")
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    found = failure(raised.value)
    assert (found.code, found.type, found.message) == ("TWF500", "Bad", "bad")


async def test_t093_an_activity_with_comments_only_and_no_function_parks(world: World) -> None:
    world.load("workflow W():\n    activity Nothing()\n\nactivity Nothing():\n    # to be bound\n")
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert "TWF601" in (await run.reason() or "")


# --- T100 to T104


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3.5),
        ("-7 % 3", 2),
        ('"a" + 1', "a1"),
        ("1 == 1.0", True),
        ("true == 1", False),
        ('0 or "x"', "x"),
        ("90s / 1m", 1.5),
        ("R{a: 1} == {a: 1}", True),
        ("[1] + [2]", [1, 2]),
        ("min(1h, 90m) == 1h", True),
    ],
)
async def test_t100_t101_expressions(world: World, expression: str, value: object) -> None:
    world.load(f"workflow W() -> (any):\n    close {expression}\n")
    found = await world.result("W")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("expression", "code"), [("x.f", "TWF503"), ("[1][1]", "TWF504"), ("1 / 0", "TWF507")])
async def test_t102_faults_have_codes(world: World, expression: str, code: str, failure: Any) -> None:
    world.load(f"workflow W() -> (any):\n    x = null\n    y = {expression}\n    close y\n")
    with pytest.raises(RunFailedError) as raised:
        await world.result("W")
    found = failure(raised.value)
    assert (found.code, found.line) == (code, 3)


async def test_t103_lists_are_shared_by_reference(world: World) -> None:
    world.load("workflow W() -> (list):\n    a = [1]\n    b = a\n    b.append(2)\n    close a\n")
    assert await world.result("W") == [1, 2]


async def test_t104_a_loop_variable_that_was_never_assigned_is_null(world: World) -> None:
    world.load("workflow W() -> (any):\n    for (x in []):\n        y = x\n    close x\n")
    assert await world.result("W") is None


# --- T110 to T112


async def test_t110_a_run_ends_by_the_text_it_started_with(world: World) -> None:
    world.load(PAY)
    run = await world.start("Pay", 3)
    await world.engine.advance("1m")
    world.load(PAY.replace("d + 1", "d + 1000").replace("x * 2", "x * 3"))
    world.engine.reload()
    assert await run.result() == 7
    assert await world.result("Pay", 3) == 1009


async def test_t111_a_run_completes_though_its_text_is_gone(world: World) -> None:
    from tenuto.model.registry import default
    from tenuto.twf.provider import TwfProvider

    world.load(PAY)
    run = await world.start("Pay", 3)
    await world.engine.advance("1m")
    default.forget("Pay")
    default.provided(TwfProvider).library.programs.clear()
    world.engine.reload()
    world.engine._workflows.clear()
    assert await run.result() == 7


async def test_t112_the_next_run_of_a_chain_takes_the_new_text(world: World) -> None:
    world.load(COUNT)
    run = await world.start("Count", 0)
    await run.signal("Tick")
    await world.engine.settle()
    world.load(COUNT.replace("close n", "close n * 100"))
    world.engine.reload()
    await run.signal("Tick")
    assert await run.result() == 200


# --- T120 to T122


async def test_t120_a_cancel_ends_the_body_and_its_handlers(world: World) -> None:
    world.activity("Work", "w", takes="5m")
    world.load(empty(BYE))
    run = await world.start("Bye")
    await _ask(world, run, "30s")
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result()
    await world.settle()
    assert world.cancelled == ["Work"]
    with pytest.raises(UpdateFailedError) as update:
        await run.update("Slow", id="u")
    assert update.value.why == "cancelled"


async def test_t121_a_loop_that_never_suspends_parks_and_names_its_line(world: World) -> None:
    world.load("workflow W():\n    y = 0\n    for:\n        x = 1\n")
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    reason = await run.reason() or ""
    assert "TWF605" in reason
    assert "line 3" in reason or "line 4" in reason


async def test_t122_an_unbound_function_in_workflow_code_parks(world: World) -> None:
    world.load("workflow W():\n    notify(1)\n")
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert "TWF602" in (await run.reason() or "")


async def test_a_query_fails_for_its_caller_only(world: World) -> None:
    world.load(ACCOUNT)
    run = await world.start("Account", 10)
    with pytest.raises(QueryFailedError):
        await run.query("Balance", 1)
    await run.signal("Close")
    assert await run.result() == 10
