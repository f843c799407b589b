"""What the memory store keeps of a run and of a task, and what each does by itself."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple

from tenuto.codec.records import encode_mail
from tenuto.codec.rows import EncodedBatch, mail_key, mail_number, update_key
from tenuto.errors import LimitError, RunNotFoundError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.housekeeping import ScheduleRecord
from tenuto.store.limits import ANSWER_KEPT_MS, BUFFERED_MESSAGES
from tenuto.store.port import CLOSED, STUCK, NewRun, RunFilter, RunningStep, RunRecord
from tenuto.store.queues import QueueLimits, TaskState

__all__ = ["Attempts", "Losses", "RunState", "Shelf", "Table", "Watcher", "Worker", "checked", "fits"]

_MAIL = mail_key(0)[:2]  # the prefix of all mail


class Table:
    """Rows in byte order."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._values = dict(rows)
        self._keys = sorted(self._values)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def delete(self, key: bytes) -> None:
        if self._values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def delete_range(self, start: bytes, end: bytes) -> None:
        first, last = bisect_left(self._keys, start), bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            del self._values[key]
        del self._keys[first:last]

    def list(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                break
            found.append((key, self._values[key]))
        return found

    def apply(self, rows: EncodedBatch) -> None:
        for start, end in rows.range_deletes:
            self.delete_range(start, end)
        for key in rows.deletes:
            self.delete(key)
        for key, value in rows.puts:
            self.put(key, value)

    def __contains__(self, key: bytes) -> bool:
        return key in self._values


@dataclass(slots=True, eq=False)
class Worker:
    lease_until: int
    beat_due: int  # when the next renewal comes if it lives
    capability: str
    queues: tuple[str, ...] | None = None
    started_at: int = 0
    crowded: bool = False  # lost with more than one lease


@dataclass(slots=True, eq=False)
class Losses:
    """The workers that were lost with a run or a task, since it last came any further."""

    reclaims: int = 0
    strikes: int = 0  # means nothing where `reclaims` is 0
    leased_at: int | None = None
    survived_ms: int = 0
    place: str | None = None

    def lease(self, now: int) -> None:
        self.leased_at = now if self.reclaims else None
        self.place = None


@dataclass(slots=True, eq=False)
class Attempts:
    """How far a task has come, as long as it is open."""

    status: str
    ready_at: int
    epoch: int = 0
    attempt: int = 0
    lease_owner: str | None = None
    started_at: int | None = None  # of the attempt under way
    cancel_requested: bool = False
    holds_slot: bool = False
    losses: Losses = field(default_factory=Losses)


class Watcher(NamedTuple):
    """A run that follows an execution it did not start; the task it would have queued itself."""

    run_id: str
    operation: str
    task_id: str


@dataclass(slots=True, eq=False)
class RunState:
    """A run, with everything that goes when it goes."""

    new: NewRun
    status: str
    created_at: int
    ready_at: int
    table: Table
    definition: str
    told: tuple[str, str] | None  # who hears of its end
    key: str | None
    epoch: int = 0
    alarm: int | None = None
    reason: str | None = None
    run_no: int = 1
    started_at: int | None = None
    completed_at: int | None = None
    lease_owner: str | None = None
    losses: Losses = field(default_factory=Losses)
    parked_by: str | None = None
    pause_requested: bool = False
    resume: int | None = None  # its pending wake-up, if there is one: its place in the queue
    woken_at: int = 0  # when that came
    inbox_seq: int = 0
    inbox_seen: int = 0  # the last number that a committed turn was given
    inbox: dict[int, tuple[Mail, str | None]] = field(default_factory=dict[int, "tuple[Mail, str | None]"])
    signal_ids: set[str] = field(default_factory=set[str])
    answers: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, "tuple[bytes, int]"])
    timers: dict[str, int] = field(default_factory=dict[str, int])  # its own, by location
    alarms: dict[str, int] = field(default_factory=dict[str, int])  # the store's: alarm, reclaim, start
    timer_count: int = 0
    details: dict[str, bytes] = field(default_factory=dict[str, bytes])  # of heartbeats, by idempotency key
    under_way: dict[str, RunningStep] = field(default_factory=dict[str, RunningStep])  # noted steps, by location
    holds_slot: bool = False  # of its queue's
    number: int = field(default_factory=partial(next, count()))  # order within one instant

    @property
    def id(self) -> str:
        return self.new.id

    @property
    def open(self) -> bool:
        return self.status not in CLOSED

    def record(self) -> RunRecord:
        new = self.new
        return RunRecord(
            new.id,
            new.target,
            self.status,
            self.epoch,
            self.alarm,
            self.reason,
            new.parent,
            new.parent is not None and self.told is None,
            self.definition,
            new.queue,
            self.run_no,
            self.created_at,
            self.started_at,
            self.completed_at,
            new.attributes,
        )

    # --- mail

    def has(self, mail: Mail, message_id: str | None) -> bool:
        """Whether that message is stored already."""
        if message_id is None:
            return False
        if mail.kind is MailKind.SIGNAL:
            return message_id in self.signal_ids
        if mail.kind is MailKind.UPDATE and update_key(message_id) in self.table:
            return True
        return any(known.kind is mail.kind and key == message_id for known, key in self.inbox.values())

    def check_room(self, limit: int) -> None:
        if self.inbox_seq < limit:
            return  # at most as much is buffered as ever came
        updates = sum(mail.kind is MailKind.UPDATE for mail, _ in self.inbox.values())
        buffered = updates + len(self.table.list(_MAIL))
        if buffered >= limit:
            raise LimitError("buffered messages", limit, buffered + 1)

    def add(self, mail: Mail, message_id: str | None) -> int:
        """Stores mail under the next number."""
        data = encode_mail(mail)
        self.inbox_seq += 1
        if mail.kind is MailKind.SIGNAL:
            self.table.put(mail_key(self.inbox_seq), data)
            if message_id is not None:
                self.signal_ids.add(message_id)
        else:
            self.inbox[self.inbox_seq] = (mail, message_id)
        return self.inbox_seq

    def mail(self, above: int) -> list[tuple[int, bytes]]:
        """The encoded mail numbered above, signals and the rest together, in number order."""
        signals = [(mail_number(key), value) for key, value in self.table.list(_MAIL)]
        rest = [(n, encode_mail(mail)) for n, (mail, _) in self.inbox.items() if n > above]
        return sorted((item for item in (*signals, *rest) if item[0] > above), key=lambda item: item[0])

    def cancel_above(self, seen: int) -> bool:
        return any(n > seen and mail.kind is MailKind.CANCEL for n, (mail, _) in self.inbox.items())

    def answer(self, update_id: str, now: int) -> bytes | None:
        answer, at = self.answers.get(update_id, (None, 0))
        return answer if at > now - ANSWER_KEPT_MS else None

    # --- the end

    def empty(self, closed_first: bytes, now: int) -> None:
        """What a closed run no longer needs goes; updates nobody decided are answered (P8, V7)."""
        for mail, key in self.inbox.values():
            if mail.kind is MailKind.UPDATE and key is not None:
                self.answers[key] = (closed_first, now)
        self.inbox.clear()
        self.timers.clear()
        self.alarms.clear()
        self.resume = None
        self.lease_owner = None
        self.alarm = None
        self.holds_slot = False
        self.timer_count = 0
        self.pause_requested = False
        self.completed_at = now


def checked(rows: EncodedBatch) -> EncodedBatch:
    """The same rows, read once through: a lazy or broken batch fails here and not half way."""
    return EncodedBatch(
        tuple((bytes(start), bytes(end)) for start, end in rows.range_deletes),
        tuple(bytes(key) for key in rows.deletes),
        tuple((bytes(key), bytes(value)) for key, value in rows.puts),
    )


@dataclass(slots=True, eq=False)
class Shelf:
    """Everything the memory store has."""

    clock: Callable[[], int]
    identity: str
    runs: dict[str, RunState] = field(default_factory=dict[str, RunState])
    tasks: dict[str, tuple[str, EnqueueTask]] = field(default_factory=dict[str, "tuple[str, EnqueueTask]"])  # open ones
    attempts: dict[str, Attempts] = field(default_factory=dict[str, Attempts])  # of open tasks that were looked at
    ended: dict[str, TaskState] = field(default_factory=dict[str, TaskState])
    ended_at: dict[str, tuple[int, str]] = field(default_factory=dict[str, "tuple[int, str]"])  # when, of which run
    workers: dict[str, Worker] = field(default_factory=dict[str, Worker])
    watchers: dict[str, list[Watcher]] = field(default_factory=dict[str, list[Watcher]])  # by what they follow
    hooks: dict[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])  # token: run, key
    schedules: dict[str, ScheduleRecord] = field(default_factory=dict[str, ScheduleRecord])
    background: dict[str, tuple[str, int]] = field(default_factory=dict[str, "tuple[str, int]"])  # name: owner, until
    definitions: set[str] = field(default_factory=set[str])  # ids that workers registered
    programs: dict[str, tuple[str, tuple[str, ...]]] = field(
        default_factory=dict[str, "tuple[str, tuple[str, ...]]"]
    )  # by hash: text, workflows
    queues: dict[str, QueueLimits] = field(default_factory=dict[str, QueueLimits])
    queue_starts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])  # of queues with a rate
    details: dict[str, bytes] = field(default_factory=dict[str, bytes])  # of heartbeats of tasks without a run
    turns: count[int] = field(default_factory=count)  # the order of wake-ups
    buffered_messages: int = BUFFERED_MESSAGES  # how many one run may have
    news: int = 0  # grows with what somebody might act on

    def run(self, run_id: str) -> RunState:
        run = self.runs.get(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return run

    def attempt(self, task_id: str) -> Attempts:
        """How far an open task has come."""
        known = self.attempts.get(task_id)
        if known is None:
            _, task = self.tasks[task_id]
            waits = task.delay_ms > 0
            known = Attempts("scheduled" if waits else "pending", self.clock() + max(task.delay_ms, 0))
            self.attempts[task_id] = known
        return known

    def wake(self, run: RunState) -> None:
        """A pending wake-up, at most one (V2)."""
        if run.resume is None:
            run.resume = next(self.turns)
            run.woken_at = self.clock()
            self.news += 1

    def limited(self) -> frozenset[str]:
        """The queues that have limits."""
        return frozenset(name for name, limits in self.queues.items() if limits.limited)

    def keyed(self, queue: str, key: str | None) -> str | None:
        """The open item with a key in a queue."""
        if key is None:
            return None
        for task_id, (_, task) in self.tasks.items():
            if (task.queue, task.key) == (queue, key):
                return task_id
        for run in self.runs.values():
            if run.open and (run.new.queue, run.key) == (queue, key):
                return run.id
        return None


def _ends_in(target: str, name: str) -> bool:
    """True if a name is the last part of a definition's id."""
    return "//" in target and target.endswith(f"/{name}")


def fits(record: RunRecord, which: RunFilter) -> bool:
    """Whether a filter lets a run pass."""
    return (
        (which.statuses is None or record.status in which.statuses)
        and (which.status != STUCK or "TN110" in (record.reason or ""))
        and (which.target is None or record.target == which.target)
        and (which.name is None or record.target == which.name or _ends_in(record.target, which.name))
        and (which.since is None or record.created_at >= which.since)
        and all(key in record.attributes and record.attributes[key] == value for key, value in which.attributes.items())
    )
