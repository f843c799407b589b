"""What a turn's durable commands mean for the store: the rest of its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import dump, load
from tenuto.errors import ChildCancelledError, ChildFailedError, ChildStartError, UpdateRejectedError
from tenuto.kernel.commands import (
    CancelChild,
    CancelTask,
    CancelTimer,
    CloseHook,
    Command,
    EnqueueTask,
    ReplyUpdate,
    SendSignal,
    StartChild,
    StartTimer,
)
from tenuto.kernel.facts import Done, TimerGone
from tenuto.kernel.location import text
from tenuto.kernel.operations import Completed, Err, Failed, Ok, Outcome
from tenuto.kernel.records import Mail, MailKind
from tenuto.kernel.turn import Definition, create
from tenuto.store.port import NewRun, NewTimer, Outgoing, RunRecord

__all__ = ["Effects", "ending_mail", "first_rows", "gather", "token_hash"]


class Effects:
    """One turn's part of a commit, and the facts its run learns from it."""

    __slots__ = (
        "answers",
        "cancelled_tasks",
        "closed_hooks",
        "definition",
        "facts",
        "followed",
        "gone",
        "outgoing",
        "runs",
        "stopped_timers",
        "tasks",
        "timers",
    )

    def __init__(self) -> None:  # a dataclass would take five times as long to make its lists
        self.runs: list[NewRun] = []
        self.tasks: list[EnqueueTask] = []
        self.cancelled_tasks: list[str] = []
        self.outgoing: list[Outgoing] = []
        self.answers: list[tuple[str, bytes]] = []
        self.timers: list[NewTimer] = []
        self.stopped_timers: list[str] = []
        self.facts: list[Done] = []  # fed after the commit
        self.closed_hooks: list[str] = []  # hashes of their tokens
        self.followed: list[tuple[str, str]] = []  # run followed, location
        self.gone: list[TimerGone] = []  # timers whose rows somebody deleted; fed after the commit
        self.definition: str | None = None  # hash of the next run of the chain


def token_hash(token: str) -> str:
    """What the store keeps of a hook's token."""
    return sha256(token.encode()).hexdigest()


def first_rows(definition: Definition, call: bytes, now: int, generation: int = 0) -> tuple[tuple[bytes, bytes], ...]:
    """The rows a run begins with."""
    return RunEncoder().encode(create(definition, call, now, generation)).puts


def gather(
    run_id: str,
    commands: Iterable[Command],
    known: Mapping[str, RunRecord],
    definition: Callable[[str], Definition],
    now: int,
) -> Effects:
    """Sorts the durable commands of a turn. `known`: the runs its commands name; `definition`: of what may start."""
    effects = Effects()
    for command in commands:
        match command:
            case EnqueueTask():
                effects.tasks.append(command)
            case CancelTask(id=task_id):
                effects.cancelled_tasks.append(task_id)
            case StartTimer(location=location, deadline=deadline, sort=sort):
                effects.timers.append(NewTimer(text(location), deadline, sort))
            case CancelTimer(location=location):
                effects.stopped_timers.append(text(location))
            case CloseHook(token=token):
                effects.closed_hooks.append(token_hash(token))
            case StartChild():
                _start_child(effects, run_id, command, known, definition, now)
            case CancelChild():
                _cancel_child(effects, run_id, command, known, now)
            case SendSignal():
                mail = Mail(MailKind.SIGNAL, command.name, None, command.payload, None, 0, now)
                effects.outgoing.append(Outgoing(command.run, mail, command.id))
                effects.facts.append(Done(command.location, 0, Ok(b"")))
            case ReplyUpdate(rejected=(why, reason)):
                effects.answers.append((command.id, dump(UpdateRejectedError(why, reason))))
            case _:
                pass  # performed after the commit; answers of admitted updates are rows
    return effects


def _start_child(
    effects: Effects,
    run_id: str,
    command: StartChild,
    known: Mapping[str, RunRecord],
    definition: Callable[[str], Definition],
    now: int,
) -> None:
    here = (run_id, text(command.location))
    other = known.get(command.run)
    if other is None:
        found = definition(command.target)
        rows = first_rows(found, command.input, now)
        effects.runs.append(
            NewRun(
                command.run,
                command.target,
                rows,
                here,
                command.detached,
                definition=found.hash,
                queue=command.queue or "default",
                priority=command.priority,
            )
        )
    elif other.parent == here or (command.if_exists == "attach" and other.target == command.target):
        # The same child again, after a rewind: it may have ended meanwhile, and told nobody who still waits (P8).
        if other.parent != here or not command.detached:
            effects.followed.append((command.run, here[1]))
    else:
        error = ChildStartError(f"run id {command.run!r} is in use by {other.target}, {other.status}")
        effects.facts.append(Done(command.location, 0, Err(dump(error))))
        return
    if command.detached:
        effects.facts.append(Done(command.location, 0, Ok(b"")))


def _cancel_child(
    effects: Effects, run_id: str, command: CancelChild, known: Mapping[str, RunRecord], now: int
) -> None:
    """Only a child of this very operation: a run that was merely followed is not touched."""
    here = (run_id, text(command.location))
    record = known.get(command.run)
    parent = record.parent if record is not None else None
    if record is None:  # started in this very turn, and no longer wanted at its end
        parent = next((new.parent for new in effects.runs if new.id == command.run), None)
    if parent == here:
        mail = Mail(MailKind.CANCEL, "", None, dump(["its parent asked", None]), None, 0, now)
        effects.outgoing.append(Outgoing(command.run, mail, f"cancel:{run_id}:{here[1]}"))


def ending_mail(record: RunRecord, outcome: Outcome, told: Iterable[tuple[str, str]], now: int) -> list[Outgoing]:
    """Tells runs, each at the location of its operation, how a run ended."""
    payload: bytes | None = None
    error: bytes | None = None
    match outcome:
        case Completed(value):
            payload = value
        case Failed(error=raised):
            failure = ChildFailedError(f"child run {record.id} failed")
            failure.__cause__ = load(raised)
            error = dump(failure)
        case _:
            error = dump(ChildCancelledError(f"child run {record.id} was cancelled"))
    return [
        Outgoing(parent, Mail(MailKind.RESULT, location, None, payload, error, 1, now), f"end:{record.id}:{location}")
        for parent, location in told
    ]
