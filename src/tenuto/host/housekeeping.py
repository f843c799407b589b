"""What one worker does for all: it holds the background leases, starts what schedules ask for, deletes what is old,
and keeps the store's statistics in step with its size.

Leases only save polling (Q12). Whoever has none still looks when it begins, and now and then; two who do the same work
do it once, because the store sees to that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from cronsim import CronSimError

from tenuto.codec.values import dump
from tenuto.errors import EnvironmentFault
from tenuto.host.definitions import Definitions
from tenuto.host.effects import first_rows
from tenuto.host.schedules import ON_TIME_MS, firing_of, nominal_id
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.housekeeping import DueSchedule, Fired, Firing
from tenuto.store.port import SCHEDULE, NewRun, Outgoing, Store
from tenuto.system import REAL, System

__all__ = ["BACKGROUND", "Housekeeper"]

log = logging.getLogger("tenuto.host")

BACKGROUND: Final = ("timers", "sweep", "schedules", "janitor")
FIRED_AT_ONCE: Final = 100
DELETED_AT_ONCE: Final = 500  # runs per transaction of the janitor
PAUSE_LONGEST: Final = 600.0  # seconds between two looks for what is old


class Housekeeper:
    """The part of a worker that works by the clock. A background lease lasts half a worker's lease."""

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        owner: Callable[[], str],
        lease_ms: int,
        retention_ms: int | None,
        poke: Callable[[], None],
        system: System = REAL,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._owner = owner
        self._ttl_ms = max(1, lease_ms // 2)
        self._retention_ms = retention_ms  # None: nothing is ever deleted
        self._poke = poke
        self._monotonic = system.clock.monotonic
        self._pace = system.pace
        self._held: frozenset[str] = frozenset()
        self._until = 0.0
        self._strange: set[tuple[str, int]] = set()  # schedules that were complained about, and their revision
        self._looked = 0, 0  # when the last look at schedules began and ended, by the store's clock
        self._measured = True  # whether it went well the last time

    def loops(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What runs as long as the worker does, by name."""
        return [
            ("background", self._keep),
            ("schedules", self._schedule),
            ("janitor", self._clean),
            ("statistics", self._measure),
        ]

    # --- leases

    def holds(self, name: str) -> bool:
        """Whether this work falls to us, as far as we know."""
        return name in self._held and self._monotonic() < self._until

    async def take(self) -> None:
        """Takes the leases that are free and renews those that are held."""
        asked = self._monotonic()
        try:
            taken = await self._store.take_background(BACKGROUND, self._owner(), self._ttl_ms)
        except EnvironmentFault as error:
            log.warning("background leases could not be renewed: %s", error)
            return
        self._held, self._until = frozenset(taken), asked + self._ttl_ms / 1000

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_ms / 1000 * self._pace.renew)
            await self.take()

    # --- schedules

    async def _schedule(self) -> None:
        again = 0.0
        while True:
            wait = self._pace.poll
            if self.holds("schedules") or self._monotonic() >= again:
                again = self._monotonic() + self._pace.others
                try:
                    following = await self.fire_schedules()
                    if following is not None:
                        wait = max(0.0, min(self._pace.poll, (following - await self._store.now()) / 1000))
                except EnvironmentFault as error:
                    log.warning("schedules could not be looked at: %s", error)
            await asyncio.sleep(wait)

    async def fire_schedules(self) -> int | None:
        """Start the runs of all that is due; when the next time comes."""
        while True:
            fired, following = await self._look_at_schedules()
            if not fired:
                return following
            self._poke()

    async def _look_at_schedules(self) -> tuple[int, int | None]:
        """Fire what is due, page by page; how many schedules moved on, and the next time.

        Lateness is judged by when the look began: with thousands due in one second, the last of them are not late.
        """
        now = await self._store.now()
        begun, ended = self._looked
        looked_at = begun if now - ended <= ON_TIME_MS else now
        fired, after = 0, ""
        while True:
            due, following = await self._store.due_schedules(FIRED_AT_ONCE, after)
            if not due:
                break
            firings = [firing for item in due if (firing := self._firing(item, now, looked_at)) is not None]
            if firings:
                fired += self._count(firings, await self._store.fire_schedules(firings))
            after = due[-1].record.name
        self._looked = now, await self._store.now()
        return fired, following

    def _firing(self, due: DueSchedule, now: int, looked_at: int) -> Firing | None:
        record = due.record
        try:
            firing = firing_of(
                due, now, looked_at, lambda run_id: self._run(due, run_id, now), lambda run_id: _cancel(run_id, now)
            )
        except (CronSimError, LookupError, ValueError, OSError) as error:
            # Stored by another release, or on a machine with other time zones. The others must go on.
            if (record.name, record.revision) not in self._strange:
                log.warning("schedule %r cannot be understood here: %s", record.name, error)
            self._strange.add((record.name, record.revision))
            return None
        if not firing.runs and (firing.next_at, firing.waiting_at) == (record.next_at, record.waiting_at):
            return None  # it became due while we were at others, or by a clock that is ahead of ours
        if not firing.runs and firing.waiting_at == record.waiting_at and record.next_at is not None:
            time = nominal_id(record.name, record.next_at)
            if due.last_open:
                log.info("schedule %r: %s was skipped, because %s is open", record.name, time, record.last_id)
            else:
                log.warning("schedule %r: %s was missed, and is not made up for (catch_up)", record.name, time)
        return firing

    def _count(self, firings: list[Firing], answers: list[Fired]) -> int:
        for firing, answer in zip(firings, answers, strict=True):
            for run_id in answer.taken:
                log.warning("schedule %r started nothing: %r is the id of a run it did not start", firing.name, run_id)
        return sum(answer.moved for answer in answers)

    def _run(self, due: DueSchedule, run_id: str, now: int) -> NewRun:
        record = due.record
        definition = self._definitions.named(record.target)
        rows = first_rows(definition, record.input, now)
        started_by = (f"{SCHEDULE}{record.name}", run_id)
        return NewRun(
            run_id, record.target, rows, started_by, detached=True, definition=definition.hash, queue=record.queue
        )

    # --- retention

    async def _clean(self) -> None:
        if self._retention_ms is None:
            return
        pause = min(PAUSE_LONGEST, max(0.1, self._retention_ms / 10_000))
        while True:
            if self.holds("janitor"):
                try:
                    await self.delete_expired(self._retention_ms)
                except EnvironmentFault as error:
                    log.warning("what is old could not be deleted: %s", error)
            await asyncio.sleep(pause)

    async def delete_expired(self, retention_ms: int) -> int:
        """Deletes what was closed so long ago, a part at a time; how many."""
        deleted = 0
        while True:
            part = await self._store.delete_expired(retention_ms, DELETED_AT_ONCE)
            deleted += part
            if part < DELETED_AT_ONCE:
                return deleted

    # --- statistics

    async def _measure(self) -> None:
        while True:
            if self.holds("janitor"):
                await self.update_statistics()
            await asyncio.sleep(self._pace.statistics)

    async def update_statistics(self) -> None:
        """Lets the store's plans keep up with its growth. Without that all is slower and nothing is wrong."""
        try:
            await self._store.update_statistics()
            self._measured = True
        except EnvironmentFault as error:
            if self._measured:
                log.warning("how large the store has become could not be found out: %s", error)
            self._measured = False


def _cancel(run_id: str, now: int) -> Outgoing:
    mail = Mail(MailKind.CANCEL, "", None, dump(["the next run of its schedule begins", None]), None, 0, now)
    return Outgoing(run_id, mail, f"schedule:{run_id}")
