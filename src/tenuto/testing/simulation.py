"""Simulating TWF programs: virtual time, scripted messages and activities, and a transcript of what happened.

A script is a list of steps: messages at their times, and what calls of activities give.

    {"at": "5m", "signal": "Add", "args": [1]}
    {"at": "6m", "update": "Withdraw", "args": [4], "id": "u1", "expect": 6}
    {"at": "7m", "query": "Balance"}
    {"at": "8m", "cancel": true}
    {"activity": "Charge", "call": 0, "takes": "2s", "returns": "ok"}
    {"activity": "Charge", "fails": {"message": "no", "type": "Declined", "retryable": false}}
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tenuto.codec.values import dump, load
from tenuto.errors import TenutoError, TwfError
from tenuto.kernel.records import Mail, MailKind, UpdateStatus
from tenuto.kernel.turn import Turn
from tenuto.model.definitions import Workflow
from tenuto.model.durations import milliseconds
from tenuto.model.ids import short_name
from tenuto.model.registry import default
from tenuto.model.steps import is_async, step_info
from tenuto.namespaces import Namespaces
from tenuto.store.port import CLOSED, RunRecord
from tenuto.testing.engine import Engine
from tenuto.testing.live import Live
from tenuto.testing.runs import Run
from tenuto.twf.ast import WorkflowTarget
from tenuto.twf.run import Bindings, CompiledProgram
from tenuto.twf.run.activities import Performer, implementation
from tenuto.twf.run.compiled import CompiledActivity
from tenuto.twf.run.failures import FinalFailure
from tenuto.twf.run.library import library
from tenuto.twf.run.targets import NEXUS

__all__ = ["ScriptError", "Simulated", "check_script", "simulate"]

_MESSAGES: Final = ("signal", "update", "query", "cancel")
_KEYS: Final = frozenset({"at", "args", "id", "expect", "activity", "call", "takes", "returns", "fails", *_MESSAGES})


class ScriptError(ValueError):
    """A script says something that means nothing."""


@dataclass(slots=True)
class Simulated:
    """What came of a simulation."""

    id: str
    status: str
    result: Any = None
    error: BaseException | None = None
    parked: str | None = None
    waits_for: str | None = None
    elapsed_ms: int = 0
    transcript: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    stubbed: list[str] = field(default_factory=list[str])
    unmet: list[str] = field(default_factory=list[str])  # expectations of the script that were not met


def check_script(script: Sequence[Any]) -> list[dict[str, Any]]:
    """The script itself, if every step of it means something."""
    for number, step in enumerate(script, 1):
        if not isinstance(step, Mapping):
            raise ScriptError(f"step {number} of the script is not an object")
        known: Mapping[str, Any] = step  # pyright: ignore[reportUnknownVariableType]
        unknown = set(known) - _KEYS
        if unknown:
            raise ScriptError(f"step {number} of the script has an unknown key {min(unknown)!r}")
        sorts = [key for key in (*_MESSAGES, "activity") if key in known]
        if len(sorts) != 1:
            raise ScriptError(f"step {number} of the script is one of {', '.join(_MESSAGES)}, activity")
        try:
            milliseconds(known.get("at", 0))
            milliseconds(known.get("takes", 0) or 0)
        except (ValueError, TypeError) as error:
            raise ScriptError(f"step {number} of the script: {error}") from None
    return [dict(step) for step in script]


async def simulate(
    program: CompiledProgram,
    bindings: Bindings,
    workflow: str,
    args: Sequence[Any],
    script: Sequence[Mapping[str, Any]] = (),
    *,
    stub: bool = False,
    run_id: str | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> Simulated:
    """Runs a workflow on virtual time until it ends, is parked, or nothing more can happen.

    With `stub` whatever is not bound, workflows of unknown namespaces included, answers with a record of its name and
    arguments. `namespaces` are stores by name; what `nexus` starts in them is real.
    """
    others = Namespaces(namespaces or {}, default)
    await others.open()
    try:
        simulation = _Simulation(program, bindings, check_script(list(script)), stub=stub)
        try:
            return await simulation.run(workflow, args, run_id)
        finally:
            simulation.close()
    finally:
        await others.close()


class _WatchedEngine(Engine):
    """The test engine, telling of every committed turn."""

    def __init__(self, watch: Callable[[RunRecord], Awaitable[None]]) -> None:
        super().__init__(patience=30)  # what is bound may really take a while
        self._watch = watch

    async def _commit(self, record: RunRecord, live: Live, turn: Turn) -> None:
        await super()._commit(record, live, turn)
        await self._watch(record)


class _Simulation:
    def __init__(
        self, program: CompiledProgram, bindings: Bindings, script: list[dict[str, Any]], *, stub: bool
    ) -> None:
        self._program = program
        self._bindings = bindings
        self._engine = _WatchedEngine(self._committed)
        self._before = self._engine.now_ms
        self._calls: dict[str, int] = {}
        self._given = [step for step in script if "activity" in step]
        self._messages = sorted(
            (step for step in script if "activity" not in step), key=lambda step: milliseconds(step.get("at", 0))
        )
        self._main = ""
        self._ended_ms: int | None = None  # of the run itself
        self._children: dict[str, str] = {}  # run id -> name, of those that have not ended
        self._events: list[tuple[int, dict[str, Any]]] = []
        self._asked: dict[str, tuple[int, dict[str, Any]]] = {}  # updates without an answer, and when they were sent
        self._updates = 0
        self._stubbed: dict[str, None] = {}
        self._unmet: list[str] = []
        self._bind(stub=stub)

    def close(self) -> None:
        self._bindings.activities.clear()
        self._bindings.activities.update(self._kept[0])
        self._bindings.functions.clear()
        self._bindings.functions.update(self._kept[1])
        if self._kept[2]:
            library().leave(self._kept[2])
            default.forget(NEXUS)
        self._engine.close()

    # --- what activities and functions do

    def _bind(self, *, stub: bool) -> None:
        bindings = self._bindings
        unknown = self._namespaces() - library().namespaces.keys() if stub else set[str]()
        self._kept = dict(bindings.activities), dict(bindings.functions), unknown
        if unknown:
            self._stub_namespaces(unknown)
        if stub:
            for name in sorted(self._host_functions()):
                if library().function(name, bindings) is None:
                    bindings.function(name, pure=True)(self._stub(name))
        scripted = {step["activity"] for step in self._given}
        for name, activity in self._program.activities.items():
            performer = Performer(activity, library().activity(name, bindings), bindings)
            if performer.missing() is None or stub or name in scripted:
                bindings.activities.pop(name, None)
                options = dict(performer.bound_options)
                bindings.activity(name, **options)(self._recorded(activity, performer))

    def _host_functions(self) -> set[str]:
        from tenuto.twf.run.compiled import host_functions

        return {name for one in self._program.program.resolution.surveyed for name in host_functions(one)}

    def _namespaces(self) -> set[str]:
        return {
            use.target.namespace.value
            for one in self._program.program.resolution.surveyed
            for use in one.survey.uses
            if isinstance(use.target, WorkflowTarget) and use.target.namespace is not None
        }

    def _stub_namespaces(self, names: set[str]) -> None:
        """Answers in place of the other stores, as long as no real one is named beside them."""
        known = default.get(NEXUS)
        real = cast("Workflow[..., Any]", known) if isinstance(known, Workflow) else None

        async def stubbed(namespace: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
            if real is not None and namespace not in names:
                return await real.fn(namespace, name, args, kwargs)
            self._stubbed[f"{namespace}/{name}"] = None
            return {"name": name, "args": [*args, *kwargs.values()]}

        if real is not None:
            default.forget(NEXUS)
        library().namespaces.update(dict.fromkeys(names))
        default.register(Workflow[..., Any](stubbed, id=NEXUS, name=NEXUS))

    def _stub(self, name: str) -> Any:
        def answer(*args: Any, **kwargs: Any) -> dict[str, Any]:
            self._stubbed[name] = None
            self._note("stub", name=name, args=[*args, *kwargs.values()])
            return {"name": name, "args": [*args, *kwargs.values()]}

        return answer

    def _recorded(self, activity: CompiledActivity, performer: Performer) -> Any:
        name = activity.name
        run = None if performer.missing() is not None else implementation(performer, ())

        async def perform(*args: Any) -> Any:
            number = self._calls.get(name, 0)
            self._calls[name] = number + 1
            whose = self._whose(step_info().run_id)
            self._note("activity", name=name, args=list(args), call=number, **whose)
            try:
                value = await self._perform(name, number, args, run)
            except asyncio.CancelledError:
                self._note("cancelled", name=name, call=number, **whose)
                raise
            except Exception as error:
                self._note("failed", name=name, call=number, message=str(error), **whose)
                raise
            self._note("returned", name=name, call=number, value=value, **whose)
            return value

        return perform

    async def _perform(self, name: str, number: int, args: tuple[Any, ...], run: Any) -> Any:
        given = next((step for step in self._given if step["activity"] == name and step.get("call") == number), None)
        given = given or next((step for step in self._given if step["activity"] == name and "call" not in step), None)
        if given is not None and given.get("takes"):
            await self._engine.takes(given["takes"])
        if given is not None and "fails" in given:
            raise _failure(given["fails"])
        if given is not None and ("returns" in given or run is None):
            return given.get("returns")
        if run is None:
            self._stubbed[name] = None
            return {"name": name, "args": list(args)}
        return await run(*args) if is_async(run) else await asyncio.to_thread(run, *args)

    # --- the run

    async def run(self, workflow: str, args: Sequence[Any], run_id: str | None) -> Simulated:
        engine = self._engine
        run = await engine.start(workflow, *args, id=run_id)
        self._main = run.id
        self._note("started", name=workflow, args=list(args))
        for step in self._messages:
            due = self._before + milliseconds(step.get("at", 0))
            if due > engine.now_ms:
                await engine.advance((due - engine.now_ms) / 1000)
            await self._send(run, step)
        await engine.drive(run.id)
        await engine.settle()  # children that are asked to stop do so
        await self._answered(last=True)
        return await self._outcome(run)

    async def _send(self, run: Run[Any], step: dict[str, Any]) -> None:
        args = step.get("args", [])
        sort = next(key for key in _MESSAGES if key in step)
        if sort == "update":
            return await self._ask(run, step)
        note = self._note(sort, **({} if sort == "cancel" else {"name": step[sort], "args": args}))
        try:
            if sort == "signal":
                await run.signal(step["signal"], *args, id=step.get("id"))
            elif sort == "query":
                note["value"] = await run.query(step["query"], *args)
                self._expect(step, f"query {step['query']}", note["value"])
            else:
                await run.cancel()
        except TenutoError as error:
            note["error"] = str(error.__cause__ or error)
            self._expect(step, f"{sort} {step[sort]}", {"error": note["error"]})

    async def _ask(self, run: Run[Any], step: dict[str, Any]) -> None:
        """Sends an update; its line is written when it has its answer."""
        key = step.get("id") or f"update-{self._updates}"
        self._updates += 1
        self._asked[key] = self._engine.now_ms - self._before, step
        if key not in (await self._engine.rows(run.id)).updates:
            mail = Mail(
                MailKind.UPDATE, step["update"], key, dump(list(step.get("args", []))), None, 0, self._engine.now_ms
            )
            try:
                await self._engine.store.send(run.id, mail)
            except TenutoError as error:
                self._note_answer(key, error=str(error.__cause__ or error))
                return
            self._engine.wake(run.id)
        await self._engine.settle()
        await self._answered()

    async def _answered(self, *, last: bool = False) -> None:
        """Notes the updates that have their answer now."""
        updates = (await self._engine.rows(self._main)).updates if self._asked else {}
        for key in list(self._asked):
            update = updates.get(key)
            rejected = await self._engine.store.answer(self._main, key)
            if update is not None and update.status is UpdateStatus.COMPLETED:
                self._note_answer(key, value=load(update.result or b""))
            elif update is not None and update.error is not None:
                self._note_answer(key, error=load(update.error))
            elif rejected is not None:
                self._note_answer(key, error=load(rejected))
            elif last:
                self._note_answer(key, error="no answer")

    def _note_answer(self, key: str, **answer: Any) -> None:
        sent_ms, step = self._asked.pop(key)
        if "error" in answer:
            error = answer["error"]
            answer["error"] = str(getattr(error, "__cause__", None) or error)
        note = self._note("update", name=step["update"], args=step.get("args", []), **answer)
        if sent_ms != self._engine.now_ms - self._before:
            note["sent"] = sent_ms / 1000
        self._expect(step, f"update {step['update']}", answer.get("value", answer))

    # --- what turns brought about

    def _whose(self, run_id: str | None) -> dict[str, Any]:
        """Whose event it is, where it is not the run's own."""
        return {} if run_id is None or run_id == self._main else {"run": run_id}

    async def _committed(self, record: RunRecord) -> None:
        if record.id == self._main:
            await self._answered()
        for other in await self._engine.store.runs():
            if other.id == self._main:
                if self._ended_ms is None and other.status in CLOSED:
                    self._ended_ms = self._engine.now_ms - self._before
                    self._note(other.status)
            elif other.id not in self._children:
                name, args = await self._called(other)
                self._children[other.id] = name
                self._note("started", name=name, args=args, run=other.id)
            if other.id in self._children and other.id == record.id and other.status in CLOSED:
                self._note(other.status, name=self._children[other.id], run=other.id)

    async def _called(self, record: RunRecord) -> tuple[str, list[Any]]:
        """A child's name and arguments; for a run of another namespace, those it has there."""
        args, kwargs = load((await self._engine.rows(record.id)).input)[:2]
        if record.target == NEXUS:
            namespace, name, args, kwargs = args
            return f"{namespace}/{name}", [*args, *kwargs.values()]
        return short_name(record.target), [*args, *kwargs.values()]

    def _expect(self, step: dict[str, Any], what: str, value: Any) -> None:
        if "expect" in step and step["expect"] != value:
            self._unmet.append(f"{what} at {step.get('at', '0s')}: expected {step['expect']!r}, got {value!r}")

    async def _outcome(self, run: Run[Any]) -> Simulated:
        engine = self._engine
        status = await run.status()
        rows = await engine.rows(run.id)
        ended_ms = engine.now_ms - self._before if self._ended_ms is None else self._ended_ms
        found = Simulated(run.id, status, elapsed_ms=ended_ms)
        if status == "completed":
            found.result = load(rows.output or b"")
        elif status == "failed":
            found.error = load(rows.error or b"")
        elif status == "parked":
            found.parked = await run.reason()
        elif status != "cancelled":
            found.waits_for = engine.why(run.id)
        if self._ended_ms is None:
            self._note(status)
        for record in await engine.store.runs():
            await self._timers(engine.get(record.id))
        found.transcript = [{"at": at / 1000, **event} for at, event in sorted(self._events, key=_order)]
        found.stubbed = list(self._stubbed)
        found.unmet = self._unmet
        return found

    async def _timers(self, run: Run[Any]) -> None:
        """Timers that fired come from the history; the rest was noted as it happened."""
        for entry in await run.history():
            if entry.kind == "sleep" and entry.ended is not None and entry.status == "completed":
                at = round(entry.ended.timestamp() * 1000) - self._before
                self._events.append((at, {"event": "timer", "name": entry.location, **self._whose(run.id)}))

    def _note(self, event: str, **details: Any) -> dict[str, Any]:
        noted = {"event": event, **details}
        self._events.append((self._engine.now_ms - self._before, noted))
        return noted


def _order(noted: tuple[int, dict[str, Any]]) -> tuple[int, int]:
    """By time; a timer that fired comes before what it let happen."""
    return noted[0], 0 if noted[1]["event"] == "timer" else 1


def _failure(said: Any) -> TwfError:
    fields = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": str(said)}
    sort = FinalFailure if fields.get("retryable") is False else TwfError
    return sort("TWF500", str(fields.get("type", "Failed")), str(fields.get("message", "failed")))
