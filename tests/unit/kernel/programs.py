"""Generated workflow programs, and a world that drives them: the same seed, the same program and the same events.

A program is a list of statements, plain data. Running one appends to a log whatever it gets, so that any other order of
events shows in its result.
"""

from __future__ import annotations

import asyncio
import hashlib
from random import Random
from typing import Any

from tenuto import (
    Async,
    Break,
    Continue,
    Failed,
    FatalError,
    NoReply,
    Reply,
    Stop,
    Task,
    join,
    loop,
    parallel,
    patched,
    publish_state,
    race,
    random,
    receive,
    rollback_checkpoint,
    side_effect,
    sleep,
    spawn,
    step,
    update_state,
    uuid4,
    wait_for_signal,
    workflow,
)
from tenuto.codec.values import dump, load
from tenuto.errors import JoinError, RaceError, StepFailedError
from tenuto.kernel.commands import EnqueueTask, RunRollback, RunStep, StartChild
from tenuto.kernel.facts import Done
from tenuto.kernel.location import text
from tenuto.kernel.operations import Err, Ok, Parked
from tenuto.kernel.operations import Failed as KernelFailed
from tenuto.kernel.records import Flag

Program = list[list[Any]]

SIGNALS = ("s0", "s1", "s2")
START = 1_700_000_000_000


def work(*args: Any) -> None: ...


def undo(result: Any) -> None: ...


@step(queue="elsewhere", name="programs-task")
async def queued() -> None: ...


@workflow(name="programs-child")
async def child() -> None: ...


# --- making programs


def make_program(chance: Random, *, depth: int = 3, root: bool = True) -> Program:
    """A block of statements."""
    return [make_statement(chance, depth, root=root) for _ in range(chance.randint(1, 4 if root else 3))]


def make_statement(chance: Random, depth: int, *, root: bool) -> list[Any]:
    simple = ["step"] * 4 + ["sleep", "wait", "timed", "effect", "publish", "draw", "task", "child", "patch", "point"]
    simple += ["handles"]
    nested = ["join", "race", "parallel", "gather", "loop", "timeout", "try", "finally"] if depth else []
    sort = chance.choice(simple + nested * 2 + (["receive"] * 2 if root else []))

    def blocks() -> list[Program]:
        return [make_program(chance, depth=depth - 1, root=False) for _ in range(chance.randint(1, 3))]

    match sort:
        case "step":
            return [
                sort,
                chance.choice("abc"),
                chance.choice(["ok", "ok", "ok", "fatal", "flaky", "undo", "exhausted"]),
            ]
        case "sleep":
            return [sort, chance.choice([0, 10, 50, 1_000])]
        case "wait":
            return [sort, chance.choice(SIGNALS), None]
        case "timed":
            return ["wait", chance.choice(SIGNALS), chance.choice([0, 20, 500])]
        case "join" | "race" | "parallel" | "gather":
            return [sort, blocks()]
        case "loop":
            counts = [chance.randint(1, 3) for _ in range(3)]
            return [sort, chance.randint(1, 6), counts, make_program(chance, depth=depth - 1, root=False)]
        case "timeout":
            return [sort, chance.choice([5, 100]), make_program(chance, depth=depth - 1, root=False)]
        case "handles":
            delays = [chance.choice([None, 0, 40, 700]) for _ in range(chance.randint(1, 3))]
            return [sort, chance.choice(["all", "any", "race"]), delays]
        case "try" | "finally":
            return [sort, make_program(chance, depth=depth - 1, root=False)]
        case "receive":
            every = chance.choice([None, 1, 2, 3])
            return [sort, chance.choice([None, 0, 30, 400]), every]
        case "patch":
            return [sort, chance.choice("pq")]
        case _:
            return [sort]


def insert_step(chance: Random, program: Program) -> Program:
    """The same program with one more step, where nothing races with it."""
    places = list(_calm_blocks(program))
    block = chance.choice(places)
    at = chance.randint(0, len(block))

    def rebuilt(part: Any) -> Any:
        if part is block:
            return [*map(rebuilt, part[:at]), ["step", "inserted", "ok"], *map(rebuilt, part[at:])]
        return [rebuilt(item) for item in part] if isinstance(part, list) else part

    changed: Program = rebuilt(program)
    return changed


def _calm_blocks(block: Program) -> Any:
    yield block
    for statement in block:
        if statement[0] in ("join", "parallel"):
            for inner in statement[1]:
                yield from _calm_blocks(inner)


# --- running them


def body_of(program: Program) -> Any:
    """The program as a workflow."""

    async def body() -> Any:
        log: list[Any] = []
        await _block(program, log, "")
        return log

    return body


async def _block(block: Program, log: list[Any], path: str) -> str:
    for n, statement in enumerate(block):
        await _statement(statement, log, f"{path}.{n}")
    return path


async def _statement(statement: list[Any], log: list[Any], path: str) -> None:
    match statement:
        case ["step", name, behaviour]:
            await _step(name, behaviour, log, path)
        case ["sleep", ms]:
            await sleep(ms / 1000)
            log.append([path, "slept"])
        case ["wait", name, timeout]:
            try:
                got = await wait_for_signal(name, timeout=None if timeout is None else timeout / 1000)
            except TimeoutError:
                got = "timed out"
            log.append([path, got])
        case ["effect"]:
            log.append([path, await side_effect(lambda: "effect")])
        case ["publish"]:
            publish_state([path, len(log)])
        case ["draw"]:
            log.append([path, random().random(), str(uuid4())])
        case ["task"]:
            log.append([path, await queued()])
        case ["child"]:
            handle = await spawn(child)
            log.append([path, handle.id])
            log.append([path, await handle])
        case ["patch", name]:
            log.append([path, patched(name)])
        case ["point"]:
            rollback_checkpoint("point")
        case ["try", inner]:
            try:
                await _block(inner, log, path)
            except Exception as error:  # noqa: BLE001  # what programs may do
                log.append([path, type(error).__name__])
        case ["finally", inner]:
            try:
                await _block(inner, log, path)
            finally:
                log.append([path, "leaving"])
                log.append([path, await step("tidy-ok", work)])
        case ["handles", how, delays]:
            await _handles(how, delays, log, path)
        case ["timeout", ms, inner]:
            try:
                async with asyncio.timeout(ms / 1000):
                    await _block(inner, log, path)
            except TimeoutError:
                log.append([path, "too long"])
        case ["loop", iterations, counts, inner]:
            await _loop(iterations, counts, inner, log, path)
        case ["receive", timeout, every]:
            await _receive(timeout, every, log, path)
        case _:
            await _branches(statement, log, path)


async def _handles(how: str, delays: list[int | None], log: list[Any], path: str) -> None:
    """Tasks (None) and timers, waited for together."""
    handles: list[Any] = [Task.run(queued) if ms is None else Task.delay(ms / 1000) for ms in delays]
    match how:
        case "all":
            log.append([path, await Task.all(handles)])
        case "any":
            log.append([path, (await Task.any(handles)).result])
        case _:
            log.append([path, (await Task.race(handles, cancel_losers=True)).result])


async def _step(name: str, behaviour: str, log: list[Any], path: str) -> None:
    options: dict[str, Any] = {"rollback": undo} if behaviour == "undo" else {}
    try:
        log.append([path, await step(f"{name}-{behaviour}", work, **options)])
    except StepFailedError as error:
        log.append([path, error.kind])
        if behaviour == "exhausted":
            raise


async def _loop(iterations: int, counts: list[int], inner: Program, log: list[Any], path: str) -> None:
    async def one(n: int) -> Any:
        seen: list[Any] = []  # what a body changes outside its state is lost at a commit, so it has a log of its own
        await _block(inner, seen, f"{path}~{n}")
        return Break(seen) if n == iterations - 1 else Continue(n + 1)

    commit, every, keep = counts
    log.append([path, await loop("loop", 0, one, commit_interval=commit, history_every=every, history_keep=keep)])


async def _receive(timeout: int | None, every: int | None, log: list[Any], path: str) -> None:
    def plain(state: list[Any], *args: Any) -> NoReply[list[Any]]:
        publish_state([path, len(state)])
        return NoReply([*state, ["plain", *args]])

    async def stepping(state: list[Any], *args: Any) -> NoReply[list[Any]]:
        return NoReply([*state, ["stepping", await step("handled-ok", work), *args]])

    def beside(state: list[Any], *args: Any) -> Async[list[Any]]:
        async def function() -> Any:
            value = await step("beside-ok", work)
            return update_state(lambda now: (len(now), [*now, ["beside", value, *args]]))

        return Async(function, state)

    async def asked(state: list[Any], *args: Any) -> Reply[list[Any]]:
        await step("asked-ok", work)
        return Reply(len(state), [*state, ["asked", *args]])

    state, timed_out = await receive(
        [],
        signals={"s0": plain, "s1": stepping, "s2": beside, "stop": lambda state: Stop(state)},
        updates={"ask": asked, "start": beside},
        timeout=None if timeout is None else timeout / 1000,
        checkpoint_every=every,
    )
    log.append([path, state, timed_out])


async def _branches(statement: list[Any], log: list[Any], path: str) -> None:
    sort, blocks = statement

    def branch(n: int) -> Any:
        return lambda: _block(blocks[n], log, f"{path}[{n}]")

    branches = [branch(n) for n in range(len(blocks))]
    try:
        match sort:
            case "join":
                log.append([path, await join({f"b{n}": made for n, made in enumerate(branches)})])
            case "race":
                log.append([path, list(await race({f"b{n}": made for n, made in enumerate(branches)}))])
            case "parallel":
                values = await parallel(branches)
                log.append([path, [type(v.error).__name__ if isinstance(v, Failed) else v for v in values]])
            case _:
                log.append([path, await asyncio.gather(*(made() for made in branches))])
    except (JoinError, RaceError) as error:
        log.append([path, list(error.errors)])


# --- the world around them


class World:
    """Decides what happens next by chance, over what a run has in flight: equal runs get equal worlds."""

    def __init__(self, run: Any, seed: int, *, cancels: bool = True) -> None:
        self.run = run
        run.handlers[f"{undo.__module__}:{undo.__qualname__}"] = undo
        self._chance = Random(seed)
        self._mail = 0
        self._sent = 0
        self._cancels = cancels
        self._cancelled = False
        self._elsewhere: set[str] = set()  # where tasks and children are open
        self._seen = 0  # commands looked at

    def go(self, turns: int = 400) -> None:
        """Takes turns until the run has ended or nothing more will happen."""
        for _ in range(turns):
            if self.run.outcome is not None or not self.once():
                return
        raise AssertionError("does not end")

    def once(self) -> bool:
        """One turn with some facts; whether there was anything left to do."""
        if not self.run.turns:
            self.run.turn()
            return True
        self._look()
        facts = []
        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
            fact = self._fact()
            if fact is not None:
                facts.append(fact)
        alarm = self.run.alarm
        if facts:
            self.run.turn(*facts, now=self.run.now + self._chance.choice((0, 0, 1, 7)))
        elif alarm is not None:
            self.run.turn(now=max(self.run.now, alarm) + self._chance.choice((0, 0, 3)))
        elif self._sent < 60:
            self.run.turn(self._message())
        else:
            return False
        assert not isinstance(self.run.outcome, Parked), self.run.outcome
        return True

    def _look(self) -> None:
        for command in self.run.commands[self._seen :]:
            if isinstance(command, EnqueueTask | StartChild):
                self._elsewhere.add(text(command.location))
        self._seen = len(self.run.commands)

    def _fact(self) -> Any:
        draw = self._chance.random()
        if self._cancels and not self._cancelled and draw < 0.01:
            self._cancelled = True
            self._mail += 1
            return self.run.cancel(self._mail, within_ms=self._chance.choice((None, 500)))
        if draw < 0.15:
            return self._message() if self._sent < 60 else None
        if draw < 0.25 and self.run.alarm is not None:
            return None  # let time pass instead
        if draw < 0.4 and self._elsewhere:
            location = self._chance.choice(sorted(self._elsewhere))
            self._elsewhere.discard(location)
            self._mail += 1
            return self.run.post_result(self._mail, location, location, at=self.run.now)
        if self.run.in_flight:
            in_order = sorted(self.run.in_flight, key=lambda key: (text(key[0]), key[1]))
            return self._end(self.run.in_flight.pop(self._chance.choice(in_order)))
        return None

    def _message(self) -> Any:
        self._mail += 1
        self._sent += 1
        draw = self._chance.random()
        if draw < 0.15:
            return self._post("stop")
        if draw < 0.35:
            update = (self._mail, f"u{self._mail}", self._chance.choice(("ask", "start", "no")), self._mail)
            self.run.post_update(*update, at=self.run.now)
            return self.run.update(*update)
        return self._post(self._chance.choice(SIGNALS), self._mail)

    def _post(self, name: str, *args: Any) -> Any:
        self.run.post(self._mail, name, *args, at=self.run.now)
        return self.run.signal(self._mail, name, *args, at=self.run.now)

    def _end(self, command: RunStep | RunRollback) -> Done:
        behaviour = command.name.partition("-")[2]
        fails = {
            "fatal": FatalError("fatal"),
            "exhausted": ValueError("again"),
            "flaky": None if command.attempt > 2 else ValueError("flaky"),
        }.get(behaviour)
        if fails is not None and isinstance(command, RunStep):
            return Done(command.location, command.attempt, Err(dump(fails)))
        return Done(command.location, command.attempt, Ok(dump(text(command.location))))


def state_of(run: Any) -> dict[str, Any]:
    """All that a crash may not change.

    What was withdrawn, and whether an operation was inserted, it may: what was in flight and is lost by a crash can be
    issued again when nothing is left over any more.
    """
    rows = run.rows
    outcome = run.outcome
    updates = {key: update._replace(error=_error(update.error)) for key, update in rows.updates.items()}
    return {
        "outcome": ("failed", _error(outcome.error)) if isinstance(outcome, KernelFailed) else outcome,
        "history": {
            at: entry._replace(flags=entry.flags & ~Flag.INSERTED)
            for at, entry in run.history_without_began.items()
            if not entry.flags & Flag.CANCELLED
        },
        "metadata": {text(at): metadata for at, metadata in rows.metadata.items()},
        "published": run.published,
        "updates": updates,
        "mail": rows.mail,
        "state": rows.state,
        "counters": rows.counters,
        "error": _error(rows.error),
    }


def _error(encoded: bytes | None) -> Any:
    """An error without its traceback, which tells whether a step was awaited or replayed."""
    if encoded is None:
        return None
    chain: list[str] = []
    error: BaseException | None = load(encoded)
    while error is not None:
        chain.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    return chain


def digest(driver: Any, seed: int) -> str:
    """Of every byte that a program's batches hold."""
    run = driver(body_of(make_program(Random(seed))))
    World(run, seed).go()
    run.close()
    return hashlib.sha256(repr(run.encoded).encode()).hexdigest()
