"""TWF programs on real stores: as they are, and rebuilt from their rows after every turn that was committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenuto import RunHandle, Tenuto, sleep, spawn, step, workflow
from tenuto.codec.rows import decode_rows
from tenuto.errors import (
    DuplicateIdError,
    RunCancelledError,
    RunFailedError,
    RunIdConflictError,
    TwfError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.host.runs import HeldRun
from tenuto.kernel.commands import RunStep
from tenuto.model.registry import default
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import Bindings, load_program

library = default.provided(TwfProvider).library


LIMIT = "20s"


@pytest.fixture(autouse=True)
def empty_library() -> Iterator[None]:
    sorts: tuple[Any, ...] = ("workflow", "step")
    before = {item.id for sort in sorts for item in default.definitions(sort)}
    kept = (
        dict(library.programs),
        list(library.bindings),
        dict(library.namespaces),
        dict(library.elsewhere),
    )
    yield
    for sort in sorts:
        for item in default.definitions(sort):
            if item.id not in before:
                default.forget(item.id)
    (
        library.programs,
        library.bindings,
        library.namespaces,
        library.elsewhere,
    ) = kept


@pytest.fixture
def rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash after every committed turn: what is in memory is dropped and built from the rows again.

    Not while an attempt is under way, which would begin anew and never end.
    """
    commit = HeldRun._commit

    async def commit_and_lose(self: HeldRun, turn: Any) -> Any:
        result = await commit(self, turn)
        performed = any(isinstance(command, RunStep) for command in turn.commands)
        committed = result is not None and result.verdict == "committed" and turn.outcome is None
        if committed and not performed and not self.busy and not self._facts:
            await self.load()
            self._touch()
        return result

    monkeypatch.setattr(HeldRun, "_commit", commit_and_lose)


@pytest.fixture(params=["memory", "sqlite", "memory, rebuilt", "sqlite, rebuilt"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tenuto]:
    store, _, mode = request.param.partition(", ")
    if mode:
        request.getfixturevalue("rebuilt")
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'app.db'}"
    async with Tenuto(url, grace=1) as app:
        yield app


@pytest.fixture
def b() -> Bindings:
    return Bindings()


def load(text: str, bindings: Bindings | None = None) -> None:
    load_program(files={"flow.twf": text.lstrip("\n")}, bindings=bindings)


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await reached():
            await asyncio.sleep(0.005)


async def parked(run: RunHandle[Any], code: str) -> None:
    async def is_parked() -> bool:
        return await run.status() == "parked"

    await until(is_parked)
    assert code in ((await run.explain()).reason or "")


@asynccontextmanager
async def restarted(url: str, **options: Any) -> AsyncIterator[Tenuto]:
    async with Tenuto(url, grace=1, **options) as app:
        yield app


PAY = """
workflow Pay(n: int) -> (int):
    activity Double(n) -> d
    await timer(50ms)
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


# --- the cases that a store or a worker could break


async def test_t001_t003_steps_timers_and_bindings(app: Tenuto, b: Bindings) -> None:
    load(PAY, b)
    run = await app.start("Pay", 3)
    assert await run.result(timeout=LIMIT) == 7
    assert [(entry.location, entry.kind) for entry in await run.history()] == [("Double", "step"), ("timer", "sleep")]
    b.activity("Double")(lambda n: 100)
    assert await (await app.start("Pay", 3)).result(timeout=LIMIT) == 101


async def test_t004_t005_failures_say_where(app: Tenuto, b: Bindings) -> None:
    @b.activity("Double", backoff="1ms")
    def double(n: int) -> int:
        raise ValueError("no")

    load(PAY, b)
    with pytest.raises(RunFailedError) as raised:
        await (await app.start("Pay", 3)).result(timeout=LIMIT)
    found = raised.value.__cause__
    assert isinstance(found, TwfError)
    assert (found.code, found.type, found.message, found.source) == ("TWF500", "ValueError", "no", "Double")
    assert (found.file, found.line) == ("flow.twf", 2)
    del b.activities["Double"]
    with pytest.raises(RunFailedError) as faulty:
        await (await app.start("Pay", "x")).result(timeout=LIMIT)
    assert isinstance(faulty.value.__cause__, TwfError)
    assert faulty.value.__cause__.code == "TWF502"


async def test_t006_wrong_arguments_start_nothing(app: Tenuto) -> None:
    load(PAY)
    with pytest.raises(TwfError, match="Pay takes"):
        await app.start("Pay")
    assert [run async for run in app.runs()] == []


async def test_t010_to_t016_messages(app: Tenuto) -> None:
    load(ACCOUNT)
    run = await app.start("Account", 10)
    assert await run.query("Balance") == 10
    assert await run.update("Withdraw", 100, timeout=LIMIT) == -1
    assert await run.update("Withdraw", 4, id="w", timeout=LIMIT) == 6
    assert await run.update("Withdraw", 4, id="w", timeout=LIMIT) == 6
    with pytest.raises(UpdateRejectedError, match="Withdraw"):
        await run.update("Nope", timeout=LIMIT)
    with pytest.raises(UpdateRejectedError) as wrong:
        await run.update("Withdraw", timeout=LIMIT)
    assert wrong.value.why == "validator"
    with pytest.raises(UpdateFailedError) as failed:
        await run.update("Withdraw", None, timeout=LIMIT)
    assert isinstance(failed.value.__cause__, TwfError)
    with pytest.raises(TwfError, match="Deposit takes"):
        await run.signal("Deposit")
    await run.signal("Nope", 1)
    await run.signal("Deposit", 5)
    await run.signal("Close")
    assert await run.result(timeout=LIMIT) == 11
    assert await run.query("Balance") == 11


async def test_t018_messages_are_dispatched_in_the_order_they_came(app: Tenuto) -> None:
    load(ACCOUNT)
    run = await app.start("Account", 10)
    await run.signal("Deposit", 1)
    await run.signal("Close")
    assert await run.result(timeout=LIMIT) == 11


async def test_t020_handlers_overlap(app: Tenuto, b: Bindings) -> None:
    released = {k: asyncio.Event() for k in (1, 2, 3)}
    begun: list[int] = []

    @b.activity("Check")
    async def check(k: int) -> None:
        begun.append(k)
        await released[k].wait()

    load(
        """
workflow Orders() -> (list):
    signal Add(k: int):
        activity Check(k)
        total = total + k
    total = 0
    order = []
    for (total < 6):
        await one:
            signal Add -> (k):
                order.append(k)
            timer(1h):
                close failed "slow"
    close order, total

activity Check(k: int):
    # bound
""",
        b,
    )
    run = await app.start("Orders")
    for k in (1, 2, 3):
        await run.signal("Add", k)

    async def all_begun() -> bool:
        return len(set(begun)) == 3

    await until(all_begun)
    for k in (3, 2, 1):
        released[k].set()
        await until(lambda k=k: _ended(run, 4 - k))  # type: ignore[misc]
    assert await run.result(timeout=LIMIT) == [[3, 2, 1], 6]


async def _ended(run: RunHandle[Any], count: int) -> bool:
    """Whether so many checks are recorded."""
    history = await run.history()
    return sum(entry.location.endswith("Check") and entry.ended is not None for entry in history) >= count


async def test_t030_to_t032_races(app: Tenuto, b: Bindings) -> None:
    stopped = asyncio.Event()

    @b.activity("Quick")
    async def quick() -> str:
        return "done"

    @b.activity("Slow")
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    text = """
workflow Race() -> (string):
    await one:
        activity Quick() -> r:
            close r
        timer(WAIT):
            close "late"

activity Quick() -> (string):
    # bound
"""
    load(text.replace("WAIT", "1h"), b)
    run = await app.start("Race")
    assert await run.result(timeout=LIMIT) == "done"
    load(text.replace("WAIT", "30ms").replace("Quick", "Slow").replace("Race", "Late"), b)
    assert await (await app.start("Late")).result(timeout=LIMIT) == "late"
    await asyncio.wait_for(stopped.wait(), 10)


async def test_t040_to_t043_fan_out(app: Tenuto, b: Bindings) -> None:
    @b.activity("Sq", max_attempts=1)
    async def square(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        await asyncio.sleep(0.002 * (4 - x))
        return x * x

    load(
        """
workflow Fan(xs: []int) -> (Out):
    n = 0
    await all:
        for (x in xs):
            activity Sq(x) -> rs
            n = n + 1
    close rs, n

activity Sq(x: int) -> (int):
    # bound
""",
        b,
    )
    run = await app.start("Fan", [1, 2, 3])
    assert await run.result(timeout=LIMIT) == [[1, 4, 9], 3]
    places = {entry.location for entry in await run.history()}
    assert {"all/0/[0]/Sq", "all/0/[1]/Sq", "all/0/[2]/Sq"} <= places
    assert await (await app.start("Fan", [])).result(timeout=LIMIT) == [[], 0]
    with pytest.raises(RunFailedError):
        await (await app.start("Fan", [1, -2, 3])).result(timeout=LIMIT)


async def test_t050_to_t053_children(app: Tenuto) -> None:
    load(
        """
workflow Parent() -> (int):
    spawn workflow Kid(2) -> h
    await h -> a
    await h -> b
    close a + b

workflow Kid(n: int) -> (int):
    await timer(20ms)
    if (n < 0):
        close failed E{message: "x"}
    close n * 10

workflow Failing():
    workflow Kid(-1)

workflow Leaves():
    spawn workflow Kid(3) -> h
        options(workflowId: "left")
    close

workflow Detaches():
    detach workflow Kid(4)
        options(workflowId: "free")
"""
    )
    assert await (await app.start("Parent")).result(timeout=LIMIT) == 40
    with pytest.raises(RunFailedError) as raised:
        await (await app.start("Failing")).result(timeout=LIMIT)
    found = raised.value.__cause__
    assert isinstance(found, TwfError)
    assert (found.type, found.message, found.source, found.details) == ("E", "x", "Kid", {"message": "x"})
    await (await app.start("Leaves")).result(timeout=LIMIT)
    with pytest.raises(RunCancelledError):
        await app.get("left").result(timeout=LIMIT)
    await (await app.start("Detaches")).result(timeout=LIMIT)
    assert await app.get("free").result(timeout=LIMIT) == 40


async def test_t060_to_t062_a_chain_carries_signals_updates_and_tokens(app: Tenuto) -> None:
    load(
        """
workflow Count(n: int) -> (list):
    signal Tick(k: int):
        seen = k
    signal Mark(what: string):
        marked = what
    update Ask() -> (int):
        return n
    if (n >= 2):
        await signal Mark -> what
        close n, what
    await signal Tick
    continue_as_new(n + 1)
"""
    )
    run = await app.start("Count", 0, id="counted")
    await run.signal("Mark", "kept")
    for k in range(3):
        await run.signal("Tick", k)
    try:
        assert await run.update("Ask", timeout=LIMIT) in (0, 1, 2)
    except UpdateRejectedError as error:
        assert error.why == "closed"  # noqa: PT017  # it may have been faster
    assert await run.result(timeout=LIMIT) == [2, "kept"]
    assert (await app.start("Count", 0, id="counted")).id == run.id  # R062: the same start, wherever its chain is now
    with pytest.raises(RunIdConflictError):
        await app.start("Count", 2, id="counted")


async def _admitted(run: RunHandle[Any], count: int) -> bool:
    rows, _ = decode_rows(run.id, await run._engine.store.rows(run.id))
    return len(rows.updates) >= count


async def test_t070_to_t074_ends(app: Tenuto, b: Bindings) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    @b.activity("Work")
    async def work() -> str:
        begun.set()
        await go.wait()
        return "w"

    load(
        """
workflow Bye() -> (string):
    signal Other():
        o = 1
    signal End():
        e = 1
    update Slow() -> (string):
        activity Work() -> w
        return w
    update Never() -> (string):
        await signal Other
        return "never"
    await signal End
    close "bye"

activity Work() -> (string):
    # bound
""",
        b,
    )
    run = await app.start("Bye")
    slow = asyncio.create_task(run.update("Slow", id="s", timeout=LIMIT))
    never = asyncio.create_task(run.update("Never", id="n", timeout=LIMIT))

    await asyncio.wait_for(begun.wait(), 10)
    await until(lambda: _admitted(run, 2))
    await run.signal("End")
    with pytest.raises(UpdateFailedError) as closed:
        await never
    assert closed.value.why == "closed"
    with pytest.raises(UpdateRejectedError) as late:
        await run.update("Slow", id="late", timeout=LIMIT)
    assert late.value.why == "closed"
    go.set()
    assert await slow == "w"
    assert await run.result(timeout=LIMIT) == "bye"


async def test_t082_a_queue_makes_a_task_of_an_activity(app: Tenuto, b: Bindings) -> None:
    @b.activity("Ship")
    async def ship(order: dict[str, Any]) -> str:
        return f"shipped {order['id']}"

    load(
        """
workflow Send(order: Order) -> (list):
    activity Ship(order) -> s
        options(taskQueue: "t-{order.tenant}")
    activity Body(order.id) -> t
        options(taskQueue: "t-{order.tenant}", retryPolicy: {maxAttempts: 1})
    close s, t

activity Ship(order: Order) -> (string):
    # bound

activity Body(id: string) -> (string):
    return "body " + id
""",
        b,
    )
    run = await app.start("Send", {"id": "1", "tenant": "acme"})
    assert await run.result(timeout=LIMIT) == ["shipped 1", "body 1"]


async def test_t083_t090_to_t092_attempts(app: Tenuto, b: Bindings) -> None:
    calls: list[int] = []

    @b.activity("Hang", backoff="1ms")
    async def hang() -> str:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return "in time"

    load(
        """
workflow Try() -> (list):
    activity Hang() -> a
        options(startToCloseTimeout: 50ms)
    activity Beat() -> details
        options(retryPolicy: {initialInterval: 1ms})
    close a, details

activity Hang() -> (string):
    # bound

activity Beat() -> (map):
    details = get_heartbeat_details()
    if (details == null):
        heartbeat(index: 3)
        fail("once")
    return details
""",
        b,
    )
    assert await (await app.start("Try")).result(timeout=LIMIT) == ["in time", {"index": 3}]


async def test_t120_a_cancel_ends_everything(app: Tenuto, b: Bindings) -> None:
    begun = asyncio.Event()

    @b.activity("Work")
    async def work() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "w"

    load(
        """
workflow Bye() -> (string):
    update Slow() -> (string):
        activity Work() -> w
        return w
    await timer(1h)
    close "bye"

activity Work() -> (string):
    # bound
""",
        b,
    )
    run = await app.start("Bye")
    slow = asyncio.create_task(run.update("Slow", timeout=LIMIT))
    await asyncio.wait_for(begun.wait(), 10)
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    with pytest.raises(UpdateFailedError) as failed:
        await slow
    assert failed.value.why == "cancelled"


# --- TWF and Python


@step(name="twf-runs-shout")
async def shout(text: str) -> str:
    return text.upper()


async def test_each_can_call_the_other_as_a_child(app: Tenuto) -> None:
    @workflow(name="PyChild")
    async def py_child(name: str) -> dict[str, Any]:
        await sleep("1ms")
        return {"shouted": await shout(name)}

    @workflow(name="PyParent")
    async def py_parent(name: str) -> list[Any]:
        child = await spawn(default.get("TwfChild"), name)  # type: ignore[call-overload]
        return [await child, "from python"]

    load(
        """
workflow TwfParent(name: string) -> (string):
    workflow PyChild(name) -> r
    close r.shouted

workflow TwfChild(name: string) -> (string):
    await timer(1ms)
    close "hello " + name
"""
    )
    assert await (await app.start("TwfParent", "ada")).result(timeout=LIMIT) == "ADA"
    assert await (await app.start("PyParent", "ada")).result(timeout=LIMIT) == ["hello ada", "from python"]


async def test_a_python_workflow_with_the_same_id_is_a_duplicate(app: Tenuto) -> None:
    @workflow(name="Pay")
    async def pay() -> None: ...

    with pytest.raises(DuplicateIdError):
        load(PAY)


# --- deploys, on a store that outlives the app


async def test_t110_to_t112_a_run_keeps_its_text_and_a_chain_takes_the_new_one(lasting_url: str) -> None:
    text = """
workflow Pay(n: int) -> (int):
    signal Go():
        g = 1
    await signal Go
    activity Double(n) -> d
    close d + 1

workflow Chain(n: int) -> (int):
    signal Go():
        g = 1
    await signal Go
    if (n > 0):
        close n * 1
    continue_as_new(n + 1)

activity Double(x: int) -> (int):
    return x * 2
"""
    load(text)
    async with restarted(lasting_url) as app:
        await app.start("Pay", 3, id="old")
        await app.start("Chain", 0, id="chain")
        await app.start("Pay", 3, id="deleted")
        await until(lambda: _is(app, "deleted", "suspended"))
    default.forget("Pay")
    default.forget("Chain")
    default.forget("twf//Double")
    library.programs.clear()
    load(text.replace("d + 1", "d + 1000").replace("x * 2", "x * 3").replace("n * 1", "n * 100"))
    async with restarted(lasting_url) as app:
        await app.get("old").signal("Go")
        assert await app.get("old").result(timeout=LIMIT) == 7
        new = await app.start("Pay", 3, id="new")
        await new.signal("Go")
        assert await new.result(timeout=LIMIT) == 1009
        chain = app.get("chain")
        await chain.signal("Go")
        await chain.signal("Go")
        assert await chain.result(timeout=LIMIT) == 100
    default.forget("Pay")
    default.forget("Chain")
    library.programs.clear()
    load("workflow Unrelated():\n    await timer(1s)\n")
    async with restarted(lasting_url) as app:
        await app.get("deleted").signal("Go")
        assert await app.get("deleted").result(timeout=LIMIT) == 7


async def _is(app: Tenuto, run_id: str, status: str) -> bool:
    return await app.get(run_id).status() == status


async def test_t091_t093_t122_a_run_is_parked_and_resumes_after_a_deploy(lasting_url: str) -> None:
    load(
        """
workflow Look() -> (list):
    activity Get("k") -> v
    activity Bare() -> w
    close v, w, double(21)

activity Get(k: string) -> (int):
    return db.get(k)

activity Bare() -> (int):
    # bound
"""
    )
    expected = ["TWF602", "TWF601", "TWF602"]
    b = Bindings()
    library.add(b)
    for code in expected:
        async with restarted(lasting_url) as app:
            run = await app.start("Look", id="look")
            await parked(run, code)
        if code == expected[0] and "db.get" not in b.functions:
            b.function("db.get")(lambda key: {"k": 42}[key])
        elif "Bare" not in b.activities:
            b.activity("Bare")(lambda: 7)
        else:
            b.function("double", pure=True)(lambda n: n * 2)
    async with restarted(lasting_url) as app:
        assert await app.get("look").result(timeout=LIMIT) == [42, 7, 42]


async def test_t054_an_unknown_namespace_parks_and_its_run_is_started_once(lasting_url: str, tmp_path: Path) -> None:
    load(
        """
workflow Here() -> (int):
    nexus "pay" workflow C(20) -> r
    close r + 1

workflow C(n: int) -> (int):
    await timer(10ms)
    close n * 2
"""
    )
    other = f"sqlite:///{tmp_path / 'pay.db'}"
    async with restarted(lasting_url) as app:
        run = await app.start("Here", id="here")
        await parked(run, "TWF604")
    async with restarted(other) as there, restarted(lasting_url, namespaces={"pay": other}) as app:
        assert await app.get("here").result(timeout=LIMIT) == 41
        assert len([one async for one in there.runs()]) == 1


async def test_a_missing_workflow_parks_and_resumes_when_somebody_brings_it(lasting_url: str) -> None:
    load("workflow Asks() -> (int):\n    workflow Elsewhere(1) -> r\n    close r\n")
    async with restarted(lasting_url) as app:
        await parked(await app.start("Asks", id="asks"), "TWF603")

    @workflow(name="Elsewhere")
    async def elsewhere(n: int) -> int:
        return n + 1

    async with restarted(lasting_url) as app:
        assert await app.get("asks").result(timeout=LIMIT) == 2


@pytest.mark.parametrize("name", ["pay", "account"])
async def test_a_sample_on_postgres(postgres_url: str, name: str, b: Bindings) -> None:
    async with Tenuto(postgres_url, grace=1) as app:
        if name == "pay":
            await test_t001_t003_steps_timers_and_bindings(app, b)
            await test_t050_to_t053_children(app)
            await test_t040_to_t043_fan_out(app, b)
        else:
            await test_t010_to_t016_messages(app)
            await test_t082_a_queue_makes_a_task_of_an_activity(app, b)
            await test_t060_to_t062_a_chain_carries_signals_updates_and_tokens(app)


async def test_a_failed_run_recovers_at_the_failed_activity(app: Tenuto, b: Bindings) -> None:
    broken = True
    calls: list[int] = []

    @b.activity("Work", max_attempts=1)
    async def work(n: int) -> int:
        calls.append(n)
        if n == 2 and broken:
            raise ValueError("not now")
        return n * 10

    load(
        """
workflow W() -> (list):
    activity Work(1) -> a
    activity Work(2) -> b
    close a, b

activity Work(n: int) -> (int):
    # bound
""",
        b,
    )
    run = await app.start("W")
    with pytest.raises(RunFailedError):
        await run.result(timeout=LIMIT)
    broken = False
    await run.recover()
    assert await run.result(timeout=LIMIT) == [10, 20]
    assert calls == [1, 2, 2]


async def test_explain_says_what_a_program_waits_for(app: Tenuto) -> None:
    load(ACCOUNT)
    run = await app.start("Account", 1)
    await until(lambda: _is(app, run.id, "suspended"))
    explanation = await run.explain()
    assert set(explanation.signals) == {"Deposit", "Close"}
    assert set(explanation.updates) == {"Withdraw"}


async def test_remote_runs_are_spawned_detached_and_cancelled_like_children(tmp_path: Path) -> None:
    load(
        """
workflow Spawns() -> (int):
    spawn nexus "pay" workflow C(1) -> h
    detach nexus "pay" workflow C(2)
        options(workflowId: "free")
    await h -> r
    close r

workflow Cancels():
    await nexus "pay" workflow Long()
        options(workflowId: "long")

workflow Fails():
    nexus "pay" workflow Bad()

workflow C(n: int) -> (int):
    await timer(10ms)
    close n * 2

workflow Long():
    await timer(1h)

workflow Bad():
    close failed Broken{message: "there"}
"""
    )
    here, other = f"sqlite:///{tmp_path / 'here.db'}", f"sqlite:///{tmp_path / 'pay.db'}"
    async with restarted(other) as there, restarted(here, namespaces={"pay": other}) as app:
        assert await (await app.start("Spawns")).result(timeout=LIMIT) == 2
        await until(lambda: _exists(there, "free"))
        assert await there.get("free").result(timeout=LIMIT) == 4
        with pytest.raises(RunFailedError) as raised:
            await (await app.start("Fails")).result(timeout=LIMIT)
        failure = raised.value.__cause__
        assert isinstance(failure, TwfError)
        assert (failure.type, failure.message, failure.source) == ("Broken", "there", "Bad")
        run = await app.start("Cancels")
        await until(lambda: _exists(there, "long"))
        await run.cancel()
        with pytest.raises(RunCancelledError):
            await run.result(timeout=LIMIT)
        with pytest.raises(RunCancelledError):
            await there.get("long").result(timeout=LIMIT)


async def _exists(app: Tenuto, run_id: str) -> bool:
    return await app.store.get(run_id) is not None


async def test_queries_answer_by_the_text_the_run_started_with(lasting_url: str) -> None:
    load(ACCOUNT)
    async with restarted(lasting_url) as app:
        await app.start("Account", 10, id="a")
        assert await app.get("a").query("Balance") == 10
    load(ACCOUNT.replace("return balance\n    update", "return balance * 1000\n    update"))
    async with restarted(lasting_url, worker=False) as client:
        assert await client.get("a").query("Balance") == 10
    default.forget("Account")
    library.programs.clear()
    async with restarted(lasting_url, worker=False) as client:
        assert await client.get("a").query("Balance") == 10


async def test_a_child_of_a_text_loaded_meanwhile_finds_it_after_a_restart(lasting_url: str) -> None:
    text = """
workflow Parent() -> (int):
    signal Go():
        g = 1
    await signal Go
    workflow Kid() -> r
    close r

workflow Kid() -> (int):
    signal On():
        o = 1
    await signal On
    close 1
"""
    load(text)
    async with restarted(lasting_url) as app:
        run = await app.start("Parent", id="p")
        load(text.replace("close 1", "close 2"))  # while the worker runs
        await run.signal("Go")
        kid = "p:0:child:Kid"
        await until(lambda: _exists(app, kid))
        await until(lambda: _is(app, kid, "suspended"))
    for name in ("Parent", "Kid"):
        default.forget(name)
    library.programs.clear()
    load("workflow Unrelated():\n    await timer(1s)\n")
    async with restarted(lasting_url) as app:
        await app.get(kid).signal("On")
        assert await app.get("p").result(timeout=LIMIT) == 2


# --- what was stored while nobody was there


TWO = """
workflow Two() -> (list):
    signal A(n: int):
        a = n
    signal B(n: int):
        b = n
    await timer(10ms)
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
LATE = """
workflow Late() -> (string):
    signal Add(k: int):
        {handler}
    await one:
        signal Add -> k:
            close "in time"
        timer(2s):
            close failed "slow"

activity Check(k: int):
    return
"""


async def test_t017_nothing_is_dispatched_after_the_exit(lasting_url: str) -> None:
    load(ACCOUNT)
    async with Tenuto(lasting_url, worker=False) as client:
        run = await client.start("Account", 10)
        await run.signal("Close")
        await run.signal("Deposit", 1)
        async with restarted(lasting_url):
            assert await run.result(timeout=LIMIT) == 10


async def test_t035_the_token_that_finished_first_wins_on_a_store_too(lasting_url: str) -> None:
    load(TWO)
    async with Tenuto(lasting_url, worker=False) as client:
        run = await client.start("Two")
        await run.signal("B", 1)
        await run.signal("A", 2)
        async with restarted(lasting_url):
            assert await run.result(timeout=LIMIT) == ["B", "A"]


@pytest.mark.parametrize(("handler", "wins"), [("activity Check(k)", False), ("seen = k", True)])
async def test_t022_t023_a_message_stored_in_time_meets_a_late_worker(
    lasting_url: str, handler: str, wins: bool
) -> None:
    load(LATE.format(handler=handler))
    async with Tenuto(lasting_url, worker=False) as client:
        async with restarted(lasting_url):
            run = await client.start("Late")

            async def waits() -> bool:
                return await run.status() == "suspended"

            await until(waits)
        await run.signal("Add", 6)
        deadline = await client.store.now() + 2_000

        async def is_over() -> bool:
            return await client.store.now() > deadline

        await until(is_over)
        async with restarted(lasting_url):
            if wins:
                assert await run.result(timeout=LIMIT) == "in time"
            else:
                with pytest.raises(RunFailedError):
                    await run.result(timeout=LIMIT)


# --- the rest of the cases, on real stores


async def test_t021_a_handler_that_has_not_finished_loses_to_the_timer(app: Tenuto, b: Bindings) -> None:
    asked: list[str] = []

    @b.activity("Check")
    async def check(k: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asked.append("to stop")
            raise

    load(LATE.format(handler="activity Check(k)").replace("timer(2s)", "timer(100ms)"), b)
    run = await app.start("Late")
    await run.signal("Add", 9)
    with pytest.raises(RunFailedError):
        await run.result(timeout=LIMIT)

    async def is_asked() -> bool:
        return bool(asked)

    await until(is_asked)


async def test_t033_t034_races_in_loops_and_with_queued_tokens(app: Tenuto, b: Bindings) -> None:
    calls: list[int] = []

    @b.activity("Quick")
    async def quick(i: int) -> int:
        calls.append(i)
        return i * 10

    load(
        """
workflow Twice() -> (list):
    signal Go(n: int):
        seen = n
    out = []
    for (i in [1, 2]):
        await one:
            activity Quick(i) -> r:
                out.append(r)
            timer(1h):
                out.append(0)
    await timer(10ms)
    await one:
        activity Quick(3) -> r:
            out.append(r)
        signal Go -> n:
            out.append(n)
    close out

activity Quick(i: int) -> (int):
    # bound
""",
        b,
    )
    run = await app.start("Twice")
    await run.signal("Go", 7)
    assert await run.result(timeout=LIMIT) == [10, 20, 7]
    assert sorted(set(calls)) == [1, 2]
    assert "for/~1/one/0/Quick" in [entry.location for entry in await run.history()]


async def test_t080_t081_attempts_of_definition_and_call(app: Tenuto, b: Bindings) -> None:
    calls = {"Flaky": 0, "Once": 0}

    @b.activity("Flaky")
    async def flaky() -> str:
        calls["Flaky"] += 1
        if calls["Flaky"] < 5:
            raise ValueError("again")
        return "fifth"

    @b.activity("Once")
    async def once() -> None:
        calls["Once"] += 1
        raise ValueError("no")

    load(
        """
workflow Tries() -> (string):
    activity Flaky() -> r
        options(retryPolicy: {maximumAttempts: 5, initialInterval: 2ms})
    close r

workflow OneTry():
    activity Once()
        options(retryPolicy: {maximumAttempts: 1})

activity Flaky() -> (string):
    # bound

activity Once():
    options(retryPolicy: {maximumAttempts: 5})
""",
        b,
    )
    assert await (await app.start("Tries")).result(timeout=LIMIT) == "fifth"
    with pytest.raises(RunFailedError):
        await (await app.start("OneTry")).result(timeout=LIMIT)
    assert calls == {"Flaky": 5, "Once": 1}


async def test_t100_to_t104_values_and_t121_a_loop_that_never_waits(app: Tenuto) -> None:
    load(
        """
workflow Values() -> (list):
    a = [1]
    b = a
    b.append(2)
    for (x in []):
        y = x
    close [7 / 2, -7 % 3, "a" + 1, 1 == 1.0, true == 1, 0 or "x", 90s / 1m, R{a: 1} == {a: 1}, [1] + [2], a, x]

workflow Bad(n: int) -> (int):
    x = null
    if (n == 0):
        close x.f
    if (n == 1):
        close [1][1]
    close 1 / 0

workflow Endless():
    for:
        x = 1
"""
    )
    expected = [3.5, 2, "a1", True, False, "x", 1.5, True, [1, 2], [1, 2], None]
    assert await (await app.start("Values")).result(timeout=LIMIT) == expected
    for n, code in enumerate(("TWF503", "TWF504", "TWF507")):
        with pytest.raises(RunFailedError) as raised:
            await (await app.start("Bad", n)).result(timeout=LIMIT)
        assert isinstance(raised.value.__cause__, TwfError)
        assert raised.value.__cause__.code == code
    await parked(await app.start("Endless"), "TWF605")


async def test_queries_see_the_turn_in_which_a_run_failed_or_was_cancelled(app: Tenuto) -> None:
    load(
        """
workflow Pay() -> (string):
    query Status() -> (string):
        return status
    status = "charging"
    activity Charge() -> r
    status = "declined"
    close failed Declined{message: "card declined"}

workflow Wait():
    query Status() -> (string):
        return status
    signal Change(to: string):
        status = to
    await timer(1h)

activity Charge() -> (int):
    return 1
"""
    )
    failed = await app.start("Pay")
    with pytest.raises(RunFailedError):
        await failed.result(timeout=LIMIT)
    assert await failed.query("Status") == "declined"
    cancelled = await app.start("Wait")
    await cancelled.signal("Change", "changed")
    await cancelled.cancel()
    with pytest.raises(RunCancelledError):
        await cancelled.result(timeout=LIMIT)
    assert await cancelled.query("Status") == "changed"
