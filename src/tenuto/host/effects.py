"""What a turn's durable commands mean for the store: the rest of its commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import dump
from tenuto.errors import ChildStartError, UpdateRejectedError
from tenuto.kernel.commands import (
    CancelChild,
    CancelTask,
    Command,
    EnqueueTask,
    ReplyUpdate,
    SendSignal,
    StartChild,
)
from tenuto.kernel.facts import Done
from tenuto.kernel.location import text
from tenuto.kernel.operations import Err, Ok
from tenuto.kernel.records import Mail, MailKind
from tenuto.kernel.turn import Definition, create
from tenuto.store.port import NewRun, Outgoing, RunRecord

__all__ = ["Effects", "first_rows", "gather"]


@dataclass(slots=True)
class Effects:
    """One turn's part of a commit, and the facts its run learns from it."""

    runs: list[NewRun] = field(default_factory=list[NewRun])
    tasks: list[EnqueueTask] = field(default_factory=list[EnqueueTask])
    cancelled_tasks: list[str] = field(default_factory=list[str])
    outgoing: list[Outgoing] = field(default_factory=list[Outgoing])
    answers: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    facts: list[Done] = field(default_factory=list[Done])  # fed after the commit
    followed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # run followed, location


def first_rows(definition: Definition, call: bytes, now: int, generation: int = 0) -> tuple[tuple[bytes, bytes], ...]:
    """The rows a run begins with."""
    return RunEncoder().encode(create(definition, call, now, generation)).puts


def gather(
    run_id: str, commands: Iterable[Command], known: dict[str, RunRecord], hashes: dict[str, Definition], now: int
) -> Effects:
    """Sorts the durable commands of a turn. `known`: the runs there are; `hashes`: definitions of what may start."""
    effects = Effects()
    for command in commands:
        match command:
            case EnqueueTask():
                effects.tasks.append(command)
            case CancelTask(id=task_id):
                effects.cancelled_tasks.append(task_id)
            case StartChild():
                _start_child(effects, run_id, command, known, hashes, now)
            case CancelChild(run=child):
                mail = Mail(MailKind.CANCEL, "", None, dump(["its parent asked", None]), None, 0, now)
                record = known.get(child)
                if record is not None and record.parent == (run_id, text(command.location)):
                    effects.outgoing.append(Outgoing(child, mail, f"cancel:{run_id}:{text(command.location)}"))
            case SendSignal():
                mail = Mail(MailKind.SIGNAL, command.name, None, command.payload, None, 0, now)
                effects.outgoing.append(Outgoing(command.run, mail, command.id))
                effects.facts.append(Done(command.location, 0, Ok(b"")))
            case ReplyUpdate(rejected=(why, reason)):
                effects.answers.append((command.id, dump(UpdateRejectedError(why, reason))))
            case _:
                pass  # timers are the alarm here; answers of admitted updates are rows
    return effects


def _start_child(
    effects: Effects,
    run_id: str,
    command: StartChild,
    known: dict[str, RunRecord],
    hashes: dict[str, Definition],
    now: int,
) -> None:
    here = (run_id, text(command.location))
    other = known.get(command.run)
    if other is None:
        rows = first_rows(hashes[command.target], command.input, now)
        effects.runs.append(NewRun(command.run, command.target, rows, here, command.detached))
    elif other.parent != here:
        if command.if_exists == "attach" and other.target == command.target:
            effects.followed.append((command.run, here[1]))
        else:
            error = ChildStartError(f"run id {command.run!r} is in use by {other.target}, {other.status}")
            effects.facts.append(Done(command.location, 0, Err(dump(error))))
            return
    if command.detached:
        effects.facts.append(Done(command.location, 0, Ok(b"")))
