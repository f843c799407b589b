"""Runs workflows in this process on virtual time, over the memory store.

Time stands still while anything can happen; when nothing can, it jumps to the next deadline. A step that really takes
long is waited for; if the run has a deadline meanwhile, only for `patience` seconds, then the deadline comes first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, TypeVarTuple, cast, overload

from tenuto.codec.rows import EncodedBatch, decode_rows, is_first_input
from tenuto.codec.values import dump, load
from tenuto.errors import HookTakenError, RunIdConflictError, TwfError
from tenuto.host.classify import classify
from tenuto.host.definitions import Definitions
from tenuto.host.effects import Effects, ending_mail, first_rows, gather, token_hash
from tenuto.host.programs import Programs
from tenuto.host.runner import perform
from tenuto.kernel.commands import (
    CancelStep,
    CancelTask,
    Command,
    EnqueueTask,
    RegisterHook,
    RunRollback,
    RunStep,
    is_durable,
)
from tenuto.kernel.facts import Done, fact_of
from tenuto.kernel.location import check_name, text
from tenuto.kernel.operations import Cancelled, Completed, Continued, Err, Failed, Ok, Parked, StepSpec, TimedOut
from tenuto.kernel.records import Rows
from tenuto.kernel.retries import GiveUp, Retry
from tenuto.kernel.turn import Definition, Turn
from tenuto.kernel.turn import Run as KernelRun
from tenuto.model.definitions import Bound, Step, Workflow, encode_call
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.main import definition_of, run_main
from tenuto.model.marking import startable
from tenuto.model.registry import default
from tenuto.model.steps import Attempt, StepCall
from tenuto.store.commits import full
from tenuto.store.endings import SINGLES
from tenuto.store.memory import MemoryStore
from tenuto.store.port import CLOSED, Full, NewRun, Outgoing, Park, RunRecord
from tenuto.testing.live import Job, JobKey, Live, judged
from tenuto.testing.runs import Run
from tenuto.testing.sleepers import Sleepers
from tenuto.twf.run import TwfWorkflow

__all__ = ["Engine"]

IDLE_TURNS: Final = 10_000  # in a row

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Engine:
    """Runs workflows in this process on virtual time; the fixtures `engine` and `crashing_engine` give one.

    `crash_everywhere`: every run is rebuilt from its stored rows after every turn that was committed. `now`: when time
    begins. `patience`: for how many real seconds a step that really takes time is waited for before a deadline of the
    run comes first.
    """

    def __init__(
        self,
        *,
        crash_everywhere: bool = False,
        patience: float = 0.1,
        now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    ) -> None:
        self.now_ms = round(now.timestamp() * 1000)
        self.store = MemoryStore(lambda: self.now_ms)
        self.notices: list[str] = []  # what runs logged
        self.turns = 0  # committed or not, of all runs
        self._idle_turns = 0  # the latest ones that had nothing to commit
        self._crash_everywhere = crash_everywhere
        self._patience = patience
        self._live: dict[str, Live] = {}
        self._awake: dict[str, None] = {}
        self._jobs: dict[JobKey, Job] = {}
        self._stopping: set[asyncio.Task[Any]] = set()  # attempts that were asked to stop
        self._details: dict[str, bytes] = {}  # heartbeats by idempotency key
        self._retries: list[tuple[int, int, str, int]] = []  # tasks to be tried: when, order, id, attempt
        self._graveyard: list[KernelRun] = []  # what a crash left: never stepped again, closed at the end
        self._workflows: dict[str, Workflow[..., Any]] = {}
        self._minted = 0
        self._programs = Programs(self.store, Definitions(default))
        self._sleepers = Sleepers()

    # --- what tests call

    @overload
    async def start(self, workflow: Bound[R], /, *, id: str | None = None) -> Run[R]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        id: str | None = None,
    ) -> Run[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: object, id: str | None = None) -> Run[Any]: ...
    async def start(  # type: ignore[misc]  # mypy does not see that *args takes what *Ts takes
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002
    ) -> Run[Any]:
        """Starts a run; the same id with the same workflow and input again is the same run."""
        definition, call = _call_of(workflow, args)
        await self._programs.keep()
        run_id = check_name(id) if id is not None else self.mint(definition.name)
        self._workflows[definition.id] = definition
        rows = first_rows(self._definition(definition), call, self.now_ms)
        if not await self.store.create(NewRun(run_id, definition.id, rows)):
            singles = dict(await self.store.rows(run_id, SINGLES))
            record = await self.store.get(run_id)
            if record is None or record.target != definition.id or not is_first_input(singles, call):
                raise RunIdConflictError(f"run id {run_id!r} belongs to another start")
            return Run(self, run_id)
        self.wake(run_id)
        return Run(self, run_id)

    def get(self, run_id: str, /) -> Run[Any]:
        """A handle on a run."""
        return Run(self, run_id)

    async def advance(self, duration: Duration, /) -> None:
        """Lets time pass: everything due meanwhile happens, in order."""
        until = self.now_ms + milliseconds(duration)
        await self._pump(_never, until)
        self.now_ms = max(self.now_ms, until)
        self._wake_due()
        await self.settle()

    async def takes(self, duration: Duration, /) -> None:
        """Called in an `async` step: that much virtual time passes before it goes on."""
        await self._sleepers.sleep(self.now_ms + milliseconds(duration))

    async def settle(self) -> None:
        """Lets happen what can happen without time passing."""
        await self._pump(_never, self.now_ms)

    def crash(self) -> None:
        """Loses everything in memory: runs, attempts under way. What was committed is there."""
        for job in self._jobs.values():
            job.work.cancel()
        self._jobs.clear()
        self._graveyard.extend(live.run for live in self._live.values())
        self._awake.update(dict.fromkeys(self._live))
        self._live.clear()
        self._retries = [(self.now_ms, self._number(), task_id, 1) for task_id in self.store.tasks]  # workers are gone

    async def evict(self) -> None:
        """Drops every run from memory in good order, as an engine does with idle ones."""
        for run_id, live in list(self._live.items()):
            if not any(key[0] == run_id for key in self._jobs):
                del self._live[run_id]
                self._awake[run_id] = None
                self.notices.extend(f"{run_id}: {name} refused to close" for name in live.run.close())

    def reload(self, *workflows: Workflow[..., Any]) -> None:
        """A deploy: crashes, and takes these definitions in place of those with the same ids."""
        self.crash()
        self._workflows.update((workflow.id, workflow) for workflow in workflows)

    def close(self) -> None:
        """Closes everything in memory."""
        self.crash()
        for run in self._graveyard:
            run.close()

    # --- what handles use

    def mint(self, name: str) -> str:
        self._minted += 1
        return f"{name}-{self._minted}"

    def wake(self, run_id: str) -> None:
        self._awake[run_id] = None

    def workflow(self, target: str) -> Workflow[..., Any]:
        known: Any = self._workflows.get(target)
        if known is None or isinstance(known, TwfWorkflow):  # of programs the latest counts; runs are pinned
            known = default.get(target) or known
        if not isinstance(known, Workflow):
            raise LookupError(target)
        return cast("Workflow[..., Any]", known)

    async def definition_of(self, run_id: str) -> Workflow[..., Any] | None:
        """What a run is executed by."""
        record = await self.store.get(run_id)
        if record is None:
            return None
        current = self._workflows.get(record.target)
        if current is not None and not isinstance(current, TwfWorkflow):
            return current  # Python has one text
        return await self._pinned(record.target, (await self.rows(run_id)).version)

    async def rows(self, run_id: str) -> Rows:
        return decode_rows(run_id, await self.store.rows(run_id))[0]

    async def drive(self, run_id: str, until: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Runs everything until a run has ended or is parked, or something else is true."""

        async def reached() -> bool:
            record = await self.store.get(run_id)
            if record is None or record.status in CLOSED or (record.status == "parked" and run_id not in self._awake):
                return True
            return until is not None and await until()

        await self._pump(reached, None)

    def why(self, run_id: str) -> str:
        """What a run waits for."""
        live = self._live.get(run_id)
        if live is None or live.last is None:
            return "it is not in memory"
        waiting = live.last.waiting
        names = [f"signal {name!r}" for name in waiting.signals] + [f"update {name!r}" for name in waiting.updates]
        return ", ".join(names) or "nothing it could say"

    # --- the loop

    async def _pump(self, reached: Callable[[], Awaitable[bool]], limit: int | None) -> None:
        """Takes turns and waits for steps until something is reached, or nothing more can happen by a time."""
        while not await reached():
            if self._awake:
                await self._look_at(next(iter(self._awake)))
                await asyncio.sleep(0)  # a test's own timeout gets its turn, whatever the runs do
            elif self._stopping and await self._have_stopped():
                pass  # and may have brought something about
            elif not await self._jobs_progressed(limit):
                deadline = await self._next_deadline()
                if deadline is None or (limit is not None and deadline > limit):
                    return
                self.now_ms = max(self.now_ms, deadline)
                await self._due()

    async def _have_stopped(self) -> bool:
        """Waits for attempts that were asked to stop, with patience; False: there is one that does not."""
        stopped, _ = await asyncio.wait(self._stopping, timeout=self._patience)
        await asyncio.sleep(0)
        return bool(stopped)

    async def _jobs_progressed(self, limit: int | None) -> bool:
        if not self._jobs:
            return False
        deadline = await self._next_deadline()
        may_jump = deadline is not None and (limit is None or deadline <= limit)
        patience = self._patience if may_jump or limit is not None else None
        work = [job.work for job in self._jobs.values()]
        if self._sleepers.all_of(work):
            return False  # all of them wait for virtual time
        dozed = self._sleepers.dozed = asyncio.get_running_loop().create_future()
        waited: list[asyncio.Future[Any]] = [*work, dozed]
        await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finished = [key for key, job in self._jobs.items() if job.work.done()]
        for key in finished:  # in the order they began, whatever order they ended in
            job = self._jobs.pop(key)
            if not job.work.cancelled():
                await self._report(job, job.work.result())
        return bool(finished) or dozed.done()

    async def _next_deadline(self) -> int | None:
        alarms = [
            record.alarm
            for record in await self.store.runs()
            if record.alarm is not None and record.status not in CLOSED and record.status != "parked"
        ]
        limits = [job.deadline for job in self._jobs.values() if job.deadline is not None]
        retries = [self._retries[0][0]] if self._retries else []
        sleeper = self._sleepers.next()
        return min((*alarms, *limits, *retries, *([] if sleeper is None else [sleeper])), default=None)

    async def _due(self) -> None:
        await self._wake_alarms()
        await self._sleepers.wake(self.now_ms)
        for key, job in list(self._jobs.items()):
            if job.deadline is not None and job.deadline <= self.now_ms:
                self._stop([key])
                await self._report(job, TimedOut())
        while self._retries and self._retries[0][0] <= self.now_ms:
            _, _, task_id, attempt = heapq.heappop(self._retries)
            if task_id in self.store.tasks:
                self._start_task(*self.store.tasks[task_id], attempt)

    def _wake_due(self) -> None:
        self._awake.update(dict.fromkeys(self._live))

    async def _wake_alarms(self) -> None:
        for record in await self.store.runs():
            if record.alarm is not None and record.alarm <= self.now_ms and record.status not in CLOSED:
                self.wake(record.id)

    # --- turns

    async def _look_at(self, run_id: str) -> None:
        del self._awake[run_id]
        record = await self.store.get(run_id)
        if record is None or record.status in CLOSED:
            return
        live = self._live.get(run_id)
        if live is None:
            live = self._live[run_id] = await self._load(record)
        await self._read_mail(live)
        committed = await self._turn(record, live)
        self._idle_turns = 0 if committed else self._idle_turns + 1
        if self._idle_turns > IDLE_TURNS:
            raise RuntimeError(
                f"{IDLE_TURNS:,} turns in a row stored nothing, the last ones of run {run_id!r}: its code goes round "
                "without an operation that is recorded, as a loop around an ephemeral step does"
            )
        if self._crash_everywhere and committed:
            await self._rebuild(run_id)

    async def _load(self, record: RunRecord) -> Live:
        stored = await self.store.rows(record.id)
        rows, encoder = decode_rows(record.id, stored)
        workflow = await self._pinned(record.target, rows.version)
        parent = record.parent[0] if record.parent is not None else None
        run = KernelRun.load_rows(
            rows._replace(mail=()),  # all mail is given as facts, signals and the rest in one order
            self._definition(workflow),
            lambda port: run_main(workflow, port, rows.input, parent),
            dump,
            load,
            self._programs.definitions.handler,
        )
        lease = await self.store.claim(record.id)
        return Live(run, encoder, lease, 0, workflow)

    async def _read_mail(self, live: Live) -> None:
        for n, mail in await self.store.mail(live.lease.run_id, live.seen_mail):
            live.seen_mail = n
            live.facts.append(fact_of(n, mail, load))

    async def _turn(self, record: RunRecord, live: Live) -> bool:
        """Takes a turn; whether it had anything to commit."""
        facts = tuple(live.facts)
        live.facts.clear()
        turn = live.last = live.run.take_turn(facts, self.now_ms)
        live.fresh = False
        self.turns += 1
        self.notices.extend(turn.notices)
        if isinstance(turn.outcome, Parked):
            await self._park(record, live, turn.outcome.error)
            return True
        await self._commit(record, live, turn)
        for command in turn.commands:
            await self._perform(live, command)
        if turn.goes_on:
            self.wake(record.id)
        return not turn.batch.empty or any(is_durable(command) for command in turn.commands)

    async def _park(self, record: RunRecord, live: Live, error: Exception) -> None:
        code = f"{error.code}: " if isinstance(error, TwfError) else ""
        await self.store.commit(Park(lease=live.lease, reason=f"{code}{error}"))
        self._live.pop(record.id).run.close()

    async def _commit(self, record: RunRecord, live: Live, turn: Turn) -> None:
        known = {other.id: other for other in await self.store.runs()}
        parent = live.workflow
        effects = gather(
            record.id, turn.commands, known, lambda target: self._child_definition(target, parent), self.now_ms
        )
        rows = live.encoder.encode(turn.batch)
        status = _status(turn)
        if isinstance(turn.outcome, Continued):
            generation = live.run.generation + 1
            fresh = first_rows(
                self._definition(self.workflow(record.target)), turn.outcome.input, self.now_ms, generation
            )
            rows = EncodedBatch(rows.range_deletes, rows.deletes, (*rows.puts, *fresh))
        elif turn.outcome is not None:
            effects.outgoing.extend(self._endings(record, turn))
        commit = full(classify(turn, live.lease, rows, seen=live.seen_mail, effects=effects))
        assert isinstance(commit, Full)  # noqa: S101  # a turn never parks
        undelivered = await self.store.commit(commit._replace(status=status))
        self._after_commit(record, live, turn, effects, undelivered)

    def _after_commit(
        self, record: RunRecord, live: Live, turn: Turn, effects: Effects, undelivered: list[Outgoing]
    ) -> None:
        for new in effects.runs:
            self.wake(new.id)
        for outgoing in effects.outgoing:
            self.wake(outgoing.run_id)
        if effects.followed or turn.outcome is not None:
            self._awake.update(dict.fromkeys(self._live))  # whoever follows has mail now
        lost = {outgoing.id for outgoing in undelivered}
        for fact in effects.facts:
            dropped = live.run.key_of(fact.location) in lost
            live.facts.append(fact._replace(outcome=Err(dump(LookupError("no open run has it")))) if dropped else fact)
        if turn.outcome is not None:
            self._live.pop(record.id).run.close()
            if isinstance(turn.outcome, Continued):
                self.wake(record.id)
        elif live.facts:
            self.wake(record.id)

    def _endings(self, record: RunRecord, turn: Turn) -> list[Outgoing]:
        """Tells the parent how the run ended; the store tells whoever follows it."""
        if turn.outcome is None or record.parent is None or record.detached:
            return []
        return ending_mail(record, turn.outcome, [record.parent], self.now_ms)

    async def _rebuild(self, run_id: str) -> None:
        """What a crash after this turn would do: the run is loaded from its rows. Attempts under way go on.

        Not while a step that may run only once is under way: its outcome would be unknown, as it should be.
        """
        live = self._live.get(run_id)
        if live is None or live.facts or any(key[0] == run_id and _once(job) for key, job in self._jobs.items()):
            return
        self._graveyard.append(live.run)
        record = await self.store.get(run_id)
        assert record is not None  # noqa: S101  # it is live
        again = self._live[run_id] = await self._load(record)
        await self._read_mail(again)
        await self._turn(record, again)

    # --- performing

    async def _perform(self, live: Live, command: Command) -> None:
        run_id = live.lease.run_id
        match command:
            case RunStep() | RunRollback():
                self._start_job(run_id, command)
            case CancelStep(location=location):
                self._stop([key for key in self._jobs if key[:2] == (run_id, location)])
            case RegisterHook():
                token = command.token or command.key
                opened = await self.store.open_hook(run_id, command.key, token_hash(token))
                outcome = Ok(token.encode()) if opened else Err(dump(HookTakenError(f"another open run has {token!r}")))
                live.facts.append(Done(command.location, 0, outcome))
                self.wake(run_id)
            case EnqueueTask():
                heapq.heappush(self._retries, (self.now_ms + command.delay_ms, self._number(), command.id, 1))
            case CancelTask(id=task_id):
                self._stop([key for key, job in self._jobs.items() if job.task and job.task.id == task_id])
            case _:
                pass  # durable: done in the commit

    def _stop(self, keys: list[JobKey]) -> None:
        """Asks attempts to stop. What they do then is waited for before time moves."""
        for key in keys:
            work = self._jobs.pop(key).work
            work.cancel()
            self._sleepers.stir(work)
            self._stopping.add(work)
            work.add_done_callback(self._stopping.discard)

    def _start_job(self, run_id: str, command: RunStep | RunRollback, task: EnqueueTask | None = None) -> None:
        key = (run_id, command.location, command.attempt)
        if key in self._jobs:
            return  # released again by a rebuilt run while it goes on
        attempt = Attempt(
            command,
            run_id,
            details=self._details.get(command.key),
            on_heartbeat=lambda details: self._details.__setitem__(command.key, details),
        )
        deadline = None if command.timeout_ms is None else self.now_ms + command.timeout_ms
        work = asyncio.get_running_loop().create_task(perform(command, attempt))
        self._jobs[key] = Job(command, work, run_id, deadline, task)

    def _start_task(self, run_id: str, task: EnqueueTask, attempt: int) -> None:
        step = default.get(task.target)
        if not isinstance(step, Step):
            return  # nobody serves it here
        known = cast("Step[..., Any]", step)
        call = StepCall(known, None, task.input)
        spec = StepSpec(known.name, timeout_ms=task.timeout_ms, heartbeat_ms=task.heartbeat_ms)
        command = RunStep(task.location, attempt, call, spec, task.id)
        self._start_job(run_id, command, task)

    async def _report(self, job: Job, outcome: Ok | Err | TimedOut) -> None:
        command = job.command
        if job.task is not None:
            await self._task_ended(job.run_id, job.task, command.attempt, outcome)
        elif (live := self._live.get(job.run_id)) is not None:
            live.facts.append(Done(command.location, command.attempt, outcome))
            self.wake(job.run_id)

    async def _task_ended(self, run_id: str, task: EnqueueTask, attempt: int, outcome: Ok | Err | TimedOut) -> None:
        """A task is tried again by whoever runs it; its run hears of the final outcome only, by mail."""
        location = text(task.location)
        payload = outcome.value if isinstance(outcome, Ok) else None
        error: bytes | None = None
        if not isinstance(outcome, Ok):
            match judged(task, location, attempt, outcome):
                case Retry(after_ms=after_ms):
                    heapq.heappush(self._retries, (self.now_ms + after_ms, self._number(), task.id, attempt + 1))
                    return
                case GiveUp(error=failure):
                    error = dump(failure)
        for told in await self.store.finish(task.id, payload, error, attempt):
            self.wake(told)

    def _number(self) -> int:
        self._minted += 1
        return self._minted

    async def _pinned(self, target: str, digest: str) -> Workflow[..., Any]:
        """The definition a run is executed by: of a TWF program, the text it started with."""
        await self._programs.fetch(digest)
        try:
            current: Workflow[..., Any] | None = self.workflow(target)
        except LookupError:
            current = None
        return self._programs.definitions.pinned(target, digest, current)

    def _child_definition(self, target: str, parent: Workflow[..., Any]) -> Definition:
        if target in self._workflows or default.get(target) is not None:
            return self._definition(self.workflow(target))
        return self._programs.definitions.child(target, parent)

    def _definition(self, workflow: Workflow[..., Any]) -> Definition:
        digest, names = definition_of(workflow)
        return Definition(digest, names)


def _status(turn: Turn) -> str:
    match turn.outcome:
        case None:
            return "running" if turn.waiting.in_flight else "suspended"
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case Continued() | Parked():
            return "suspended"


def _once(job: Job) -> bool:
    return job.task is None and isinstance(job.command, RunStep) and job.command.spec.max_attempts == 1


def _call_of(workflow: Any, args: tuple[Any, ...]) -> tuple[Workflow[..., Any], bytes]:
    if isinstance(workflow, Bound):
        bound = cast("Bound[Any]", cast("object", workflow))
        return cast("Workflow[..., Any]", bound.definition), encode_call(bound.args, bound.kwargs)
    if isinstance(workflow, str):
        workflow = default.find(workflow, "workflow")
    known, args = startable(workflow, args)
    known.accept(args, {})
    return known, encode_call(args, {})


async def _never() -> bool:
    return False
