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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tenuto.codec.values import dump, load
from tenuto.errors import TenutoError, TwfError
from tenuto.kernel.records import Mail, MailKind, UpdateStatus
from tenuto.model.durations import milliseconds
from tenuto.model.steps import is_async
from tenuto.testing.engine import Engine
from tenuto.testing.runs import Run
from tenuto.twf.run import Bindings, CompiledProgram
from tenuto.twf.run.activities import Performer, implementation
from tenuto.twf.run.compiled import CompiledActivity
from tenuto.twf.run.failures import FinalFailure
from tenuto.twf.run.library import library

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
) -> Simulated:
    """Runs a workflow on virtual time until it ends, is parked, or nothing more can happen."""
    simulation = _Simulation(program, bindings, check_script(list(script)), stub=stub)
    try:
        return await simulation.run(workflow, args, run_id)
    finally:
        simulation.close()


class _Simulation:
    def __init__(
        self, program: CompiledProgram, bindings: Bindings, script: list[dict[str, Any]], *, stub: bool
    ) -> None:
        self._program = program
        self._bindings = bindings
        self._engine = Engine(patience=30)  # what is bound may really take a while
        self._before = self._engine.now_ms
        self._calls: dict[str, int] = {}
        self._given = [step for step in script if "activity" in step]
        self._messages = sorted(
            (step for step in script if "activity" not in step), key=lambda step: milliseconds(step.get("at", 0))
        )
        self._events: list[tuple[int, dict[str, Any]]] = []
        self._asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self._stubbed: dict[str, None] = {}
        self._unmet: list[str] = []
        self._bind(stub=stub)

    def close(self) -> None:
        self._bindings.activities.clear()
        self._bindings.activities.update(self._kept[0])
        self._bindings.functions.clear()
        self._bindings.functions.update(self._kept[1])
        self._engine.close()

    # --- what activities and functions do

    def _bind(self, *, stub: bool) -> None:
        bindings = self._bindings
        self._kept = dict(bindings.activities), dict(bindings.functions)
        if stub:
            for name in sorted(self._host_functions()):
                if library.function(name, bindings) is None:
                    bindings.function(name, pure=True)(self._stub(name))
        scripted = {step["activity"] for step in self._given}
        for name, activity in self._program.activities.items():
            performer = Performer(activity, library.activity(name, bindings), bindings)
            if performer.missing() is None or stub or name in scripted:
                bindings.activities.pop(name, None)
                options = dict(performer.bound_options)
                bindings.activity(name, **options)(self._recorded(activity, performer))

    def _host_functions(self) -> set[str]:
        from tenuto.twf.run.compiled import host_functions

        return {name for one in self._program.program.resolution.surveyed for name in host_functions(one)}

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
            self._note("activity", name=name, args=list(args), call=number)
            try:
                value = await self._perform(name, number, args, run)
            except asyncio.CancelledError:
                self._note("cancelled", name=name, call=number)
                raise
            except Exception as error:
                self._note("failed", name=name, call=number, message=str(error))
                raise
            self._note("returned", name=name, call=number, value=value)
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
        self._note("started", name=workflow, args=list(args))
        for step in self._messages:
            due = self._before + milliseconds(step.get("at", 0))
            if due > engine.now_ms:
                await engine.advance((due - engine.now_ms) / 1000)
            await self._send(run, step)
        await engine.drive(run.id)
        await self._answers(run)
        return await self._outcome(run)

    async def _send(self, run: Run[Any], step: dict[str, Any]) -> None:
        args = step.get("args", [])
        sort = next(key for key in _MESSAGES if key in step)
        note = self._note(sort, **({} if sort == "cancel" else {"name": step[sort], "args": args}))
        try:
            if sort == "signal":
                await run.signal(step["signal"], *args, id=step.get("id"))
            elif sort == "query":
                note["value"] = await run.query(step["query"], *args)
                self._expect(step, f"query {step['query']}", note["value"])
            elif sort == "cancel":
                await run.cancel()
            else:
                await self._ask(run, step, note)
        except TenutoError as error:
            note["error"] = str(error.__cause__ or error)
            self._expect(step, f"{sort} {step[sort]}", {"error": note["error"]})

    async def _ask(self, run: Run[Any], step: dict[str, Any], note: dict[str, Any]) -> None:
        key = step.get("id") or f"update-{len(self._asked)}"
        self._asked.append((key, step, note))
        if key not in (await self._engine.rows(run.id)).updates:
            mail = Mail(
                MailKind.UPDATE, step["update"], key, dump(list(step.get("args", []))), None, 0, self._engine.now_ms
            )
            await self._engine.store.send(run.id, mail)
            self._engine.wake(run.id)

    async def _answers(self, run: Run[Any]) -> None:
        updates = (await self._engine.rows(run.id)).updates
        for key, step, note in self._asked:
            update = updates.get(key)
            rejected = await self._engine.store.answer(run.id, key)
            if update is not None and update.status is UpdateStatus.COMPLETED:
                note["value"] = load(update.result or b"")
                self._expect(step, f"update {step['update']}", note["value"])
                continue
            error = load(rejected) if rejected is not None else None
            if update is not None and update.error is not None:
                error = load(update.error)
            note["error"] = "no answer" if error is None else str(error.__cause__ or error)
            self._expect(step, f"update {step['update']}", {"error": note["error"]})

    def _expect(self, step: dict[str, Any], what: str, value: Any) -> None:
        if "expect" in step and step["expect"] != value:
            self._unmet.append(f"{what} at {step.get('at', '0s')}: expected {step['expect']!r}, got {value!r}")

    async def _outcome(self, run: Run[Any]) -> Simulated:
        engine = self._engine
        status = await run.status()
        rows = await engine.rows(run.id)
        found = Simulated(run.id, status, elapsed_ms=engine.now_ms - self._before)
        if status == "completed":
            found.result = load(rows.output or b"")
        elif status == "failed":
            found.error = load(rows.error or b"")
        elif status == "parked":
            found.parked = await run.reason()
        elif status != "cancelled":
            found.waits_for = engine.why(run.id)
        self._note(status)
        await self._timers(run)
        found.transcript = [{"at": at / 1000, **event} for at, event in sorted(self._events, key=_order)]
        found.stubbed = list(self._stubbed)
        found.unmet = self._unmet
        return found

    async def _timers(self, run: Run[Any]) -> None:
        """Timers that fired come from the history; the rest was noted as it happened."""
        for entry in await run.history():
            if entry.kind == "sleep" and entry.ended is not None and entry.status == "completed":
                at = round(entry.ended.timestamp() * 1000) - self._before
                self._events.append((at, {"event": "timer", "name": entry.location}))

    def _note(self, event: str, **details: Any) -> dict[str, Any]:
        noted = {"event": event, **details}
        self._events.append((self._engine.now_ms - self._before, noted))
        return noted


def _order(noted: tuple[int, dict[str, Any]]) -> tuple[int, int]:
    """By time; a timer that fired comes before what it let happen."""
    return noted[0], {"started": 0, "timer": 1}.get(noted[1]["event"], 2)


def _failure(said: Any) -> TwfError:
    fields = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": str(said)}
    sort = FinalFailure if fields.get("retryable") is False else TwfError
    return sort("TWF500", str(fields.get("type", "Failed")), str(fields.get("message", "failed")))
