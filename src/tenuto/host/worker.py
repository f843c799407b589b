"""The loop that claims runs and takes their turns."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

from tenuto.errors import CommitUnknownError, DecodingError, EnvironmentFault, RecordError
from tenuto.host.attempts import Workplace
from tenuto.host.cache import RunCache
from tenuto.host.classify import narrowed
from tenuto.host.collector import CollectorHold, CollectorPaused
from tenuto.host.commit import Committer
from tenuto.host.contents import Contents, fetch_program, read_contents
from tenuto.host.definitions import Definitions
from tenuto.host.housekeeping import Housekeeper
from tenuto.host.leases import Renewal
from tenuto.host.limits import Limits
from tenuto.host.programs import Programs
from tenuto.host.quarantine import Quarantine
from tenuto.host.rounds import Rounds
from tenuto.host.runners import Runners
from tenuto.host.runs import HeldRun
from tenuto.host.starts import Start, Starts
from tenuto.host.tasks import Tasks
from tenuto.host.timers import DueTimers, wait_at_most
from tenuto.host.under_way import AttemptUnderWay, UnderWay
from tenuto.host.waiters import Ending
from tenuto.kernel.batch import Batch
from tenuto.kernel.records import Mail
from tenuto.model.registry import Registry, default
from tenuto.store.machine import Process, is_gone, this_process
from tenuto.store.port import Claim, Full, Lease, NewRun, Park, RunningStep, Store
from tenuto.system import REAL, System
from tenuto.system.switches import switches

__all__ = ["Worker"]

log = logging.getLogger("tenuto.host")

FAR_MS: Final = 10_000  # a run that only waits for a time so far away is not kept in memory: it is a row
TRIES: Final = 5  # to advance a run that our own code or the store's refuses to


class Worker:
    """One worker: claims what is ready, advances it, lets it go."""

    def __init__(
        self,
        store: Store,
        system: System = REAL,
        registry: Registry = default,
        *,
        queues: Sequence[str] | None,
        concurrency: int,
        lease_ms: int,
        block_limit: float,
        grace: float,
        max_reclaims: int,
        retention_ms: int | None = None,
        cache_bytes: int = 2**28,
        limits: Limits,
        tell: Callable[[str, Ending | None], None],
    ) -> None:
        self._slow = switches()
        self._store = store
        self._limits = limits
        self._tell = tell  # those who wait for something about a run
        self._queues = queues
        self._concurrency = concurrency
        self._lease_ms = lease_ms
        self._block_limit = block_limit
        self._grace = grace
        self._max_reclaims = max_reclaims
        self._quarantine = Quarantine(store, lease_ms, system)
        self._definitions = Definitions(registry)
        self._programs = Programs(store, self._definitions)
        self._housekeeper = Housekeeper(
            store, self._definitions, lambda: self._id, lease_ms, retention_ms, lambda: self.poke(), system
        )
        self._place = Workplace(store, system)
        self._held: dict[str, HeldRun] = {}
        self._cache: RunCache[HeldRun] = RunCache(cache_bytes)
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._orphaned = asyncio.Event()  # runs or tasks may be leased by this worker that it does not hold
        self._tasks = Tasks(self._place, self._definitions, tell, self.poke)
        self._loops: list[asyncio.Task[None]] = []
        self._poked = asyncio.Event()
        self._pause = self._place.pace.listen
        self._until_rate = system.pace.poll  # seconds until a rate lets more begin, at most the poll
        self._timers = DueTimers(store, lambda: self._housekeeper.holds("timers"), self.poke, system)
        self._under_way = UnderWay(store, lambda: self._id, self._attempts, system.pace.notes)
        self._stopping = False
        self._hurried = asyncio.Event()
        self._renewal: Renewal | None = None
        self._id = ""
        self._capability = ""
        self._others_wait = False  # there was not room for all that was ready
        self._claiming = asyncio.Lock()  # between a claim and holding what was claimed nobody looks for orphans
        self._meant: Counter[str] = Counter()  # runs being claimed by a signal
        self._begun_meanwhile: set[str] | None = None  # while orphans are looked for: runs begun since
        self._failures: Counter[str] = Counter()  # of runs that could not be advanced, in a row
        self._waits_first: set[str] = set()  # workflows whose last first turn left nothing to do here

    # --- life

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._runners = Runners(self._context)
        self._collector = CollectorHold()
        self._rounds = Rounds(self._context, self._store.clock, self._collector)
        self._committer = Committer(self._store, self._runners, self._collector)
        self._starts = Starts(self._store, self._runners, self._begin_start)
        await self._register()
        await self._housekeeper.take()
        self._loops = [
            self._forever("claims", self._claim),
            self._forever("timers", self._timers.fire),
            self._forever("sweep", self._sweep),
            self._forever("news", self._listen),
            self._forever("orphans", self._adopt),
            self._forever("definitions", self._know_others),
            self._forever("notes", self._under_way.note),
            *(self._forever(name, loop) for name, loop in self._housekeeper.loops()),
        ]

    async def _register(self) -> None:
        self._id = f"w-{self._place.entropy.token(8).hex()}"
        await self._programs.keep()
        self._definitions.stored = await self._programs.refresh()
        self._capability = self._definitions.capability(self._queues)
        await self._store.register(self._id, self._lease_ms, self._capability, self._definitions.hashes(), self._queues)
        self._renewal = Renewal(
            self._store, self._id, self._lease_ms, self._block_limit, self._lost, self._place.system
        )
        self._renewal.start()

    async def _know_others(self) -> None:
        """Keeps in mind what other workers have registered: code of a run can name it, and ask nobody."""
        try:
            while True:
                self._definitions.registry.know_elsewhere(self, await self._store.defined())
                await asyncio.sleep(self._place.pace.poll)
        finally:
            self._definitions.registry.know_elsewhere(self, ())

    def _forever(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return asyncio.create_task(self._until_done(name, loop), name=f"tenuto-{name}")

    async def _until_done(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                return await loop()
            except EnvironmentFault as error:
                log.warning("%s: %s", name, error)
            except Exception:
                log.exception("%s failed", name)  # edge 2 of 3: a worker that stops looking would be a silent loss
            await asyncio.sleep(self._place.pace.retry)

    async def stop(self) -> None:
        """Stops claiming, lets work in flight end within the grace time, then gives everything back."""
        self._stopping = True
        await _end(self._loops)
        work = [*self._driving.values(), *self._tasks.under_way.values()]
        if work:
            await _first(asyncio.wait(work, timeout=self._grace), self._hurried.wait())
        await _end(work)
        begun = self._tasks.close()
        for held in (*self._held.values(), *self._cache):
            held.drop()
        if self._renewal is not None:
            await self._renewal.stop()
        with suppress(EnvironmentFault):
            await self._store.deregister(self._id, begun)
        self._place.runner.close()
        self._collector.end()  # its own end is a timer of this loop, which may not come to it

    def hurry(self) -> None:
        """Skips the grace time of a stop that is under way, or to come."""
        self._hurried.set()

    def _lost(self) -> None:
        """The lease ran out: everything in memory may be somebody else's by now. Starts over under a new id."""
        log.warning("worker %s lost its lease and starts over", self._id)
        for task in (*self._driving.values(), *self._tasks.under_way.values()):
            task.cancel()
        for held in (*self._held.values(), *self._cache):
            held.drop()
        self._held.clear()
        self._cache.clear()
        self._quarantine.clear()
        if not self._stopping:
            self._loops.append(self._forever("register", self._register))

    @property
    def busy(self) -> bool:
        """Whether any run is being advanced."""
        return bool(self._driving)

    def will_tell(self, run_id: str) -> bool:
        """Whether this worker has the run, and so will tell of its end."""
        return run_id in self._held

    @property
    def _room(self) -> int:
        """How many more runs may be advanced."""
        return self._concurrency - len(self._driving)

    def _attempts(self) -> Iterator[AttemptUnderWay]:
        """The inline steps under way here."""
        for run_id in self._driving:
            if (held := self._held.get(run_id)) is not None:
                yield from (AttemptUnderWay(run_id, *attempt) for attempt in held.under_way())

    async def steps_of(self, run_id: str) -> list[RunningStep]:
        """The inline steps that this worker has under way for a run."""
        return await self._under_way.steps(attempt for attempt in self._attempts() if attempt.run_id == run_id)

    def poke(self) -> None:
        """Something in this process was stored that may be claimed: look at once."""
        self._poked.set()

    # --- claims

    async def _claim(self) -> None:
        while True:
            self._poked.clear()
            self._pause = min(self._place.pace.listen_longest, self._pause * 1.5)
            try:
                async with self._claiming:
                    more = await self._claim_once()
            except EnvironmentFault as error:
                log.warning("nothing could be claimed: %s", error)
                self._orphaned.set()  # or it could, and the answer was lost
                more = False
            if not more:
                await wait_at_most(self._until_rate, self._poked)

    async def _listen(self) -> None:
        """Looks for work when something was committed by anyone: at once if it was not by us, else now and then."""
        mark = -1
        while True:
            try:
                mark = await self._store.changed(mark, self._place.pace.poll)
            except EnvironmentFault as error:
                log.warning("news could not be heard: %s", error)
                await asyncio.sleep(self._place.pace.retry)
            if self._driving:
                await asyncio.sleep(self._pause)  # what our own commits make ready is looked for without being told
            self.poke()
            if self._tasks:
                await self._tasks.stop_flagged(self._id)
            await asyncio.sleep(self._pause)

    async def _claim_once(self) -> bool:
        """Takes what there is room for; whether there may be more. Suspects first, and nothing beside them."""
        if self._quarantine.closed:
            await self._quarantine.review(self._id)
        elif await self._quarantine.is_called_for(busy=self._busy):
            await self._claim_suspects()
        if self._quarantine.closed:
            await self._absorb()
            self._until_rate = self._place.pace.review
            return False
        # Together: a store that groups its writes makes one commit of all.
        parts = await asyncio.gather(self._absorb(), self._claim_runs(), self._claim_tasks(), return_exceptions=True)
        for failure in parts:
            if isinstance(failure, BaseException):
                raise failure
        return await self._claim_limited() or any(parts)

    async def _absorb(self) -> None:
        """Takes the wake-ups of the runs that are here."""
        if not self._held:
            return
        for run_id in await self._store.absorb(self._id, list(self._held)):
            self._pause = self._place.pace.listen
            if (held := self._held.get(run_id)) is not None:
                held.mail_arrived()

    @property
    def _busy(self) -> bool:
        """Whether this worker has, or is about to have, anything at all."""
        return bool(self._driving or self._tasks.under_way or self._meant)

    async def _claim_suspects(self) -> None:
        room = min(self._room, self._concurrency - len(self._tasks))
        if room <= 0:
            return
        known = self._definitions.workflows(), self._definitions.steps()
        group = self._concurrency, room
        found = await self._quarantine.claim(self._id, known, self._queues, group, busy=self._busy)
        for task in found.tasks:
            self._tasks.begin(task)
        if found.runs:
            await self._begin(found.runs)

    async def _claim_runs(self) -> bool:
        room = self._room
        if room <= 0:
            return False
        claims = await self._store.claim_runs(self._id, self._definitions.workflows(), room, self._queues)
        self._others_wait = len(claims) >= room
        if claims:
            self._pause = self._place.pace.listen
            await self._begin(claims)
        return self._others_wait

    async def _claim_tasks(self) -> bool:
        room = self._concurrency - len(self._tasks)
        if room <= 0:
            return False
        tasks = await self._store.claim_tasks(self._id, self._definitions.steps(), self._queues, room)
        for task in tasks:
            self._pause = self._place.pace.listen
            self._tasks.begin(task)
        return len(tasks) >= room

    async def _claim_limited(self) -> bool:
        """What queues with limits let begin here, in the room that the others have left."""
        self._until_rate = self._place.pace.poll
        room = max(0, self._room), max(0, self._concurrency - len(self._tasks))
        if not any(room) or not await self._store.limited():
            return False
        here = Counter(held.record.queue for held in self._held.values() if held.record is not None)
        here.update(self._tasks.queues())
        known = self._definitions.workflows(), self._definitions.steps()
        claimed = await self._store.claim_limited(self._id, *known, self._queues, here, room)
        for task in claimed.tasks:
            self._tasks.begin(task)
        if claimed.runs:
            await self._begin(claimed.runs)
        if claimed.again_at is not None:
            left = (claimed.again_at - await self._store.now()) / 1000
            self._until_rate = min(self._place.pace.poll, max(0.0, left))
        return bool(claimed.runs or claimed.tasks)

    async def _begin(self, claims: Sequence[Claim]) -> None:
        """Reads what is new of all claimed runs in one look, and lets each go on."""
        worker_id = self._id
        cached: dict[str, HeldRun] = {}
        for claim in claims:
            held = self._cache.pop(claim.lease.run_id)
            if held is None:
                continue
            if held.is_current(claim):
                cached[claim.lease.run_id] = held
            else:
                held.drop()
        others = [claim.lease.run_id for claim in claims if claim.lease.run_id not in cached]
        above = {**dict.fromkeys(others, 0), **{run_id: held.seen for run_id, held in cached.items()}}
        try:
            contents = await read_contents(self._store, above, others)
            for claim in claims:
                run_id = claim.lease.run_id
                contents[run_id] = await fetch_program(self._programs, claim, contents[run_id])
        except BaseException:
            self._orphaned.set()  # leased and not held: they are looked for
            _drop(cached.values())
            raise
        if self._id != worker_id:
            _drop(cached.values())
            return  # lost meanwhile, with everything it had
        runs = {run_id: cached.get(run_id) or self._hold() for run_id in contents}
        for run_id, held in runs.items():
            held.watched = run_id in self._quarantine
        self._take([(claim, runs[claim.lease.run_id], contents[claim.lease.run_id]) for claim in claims])

    def _hold(self) -> HeldRun:
        return HeldRun(
            self._store,
            self._committer,
            self._definitions,
            self._programs,
            self._place,
            self._runners,
            self._rounds,
            self._capability,
            self._tell,
            self.poke,
            self._limits,
            self._slow,
        )

    async def begin(self, new: NewRun, first: Batch) -> bool:
        """Stores a new run, whose first rows are those of `first`; False where its id, or its key, is taken.

        Where this worker may have it and has room, its first turn is stored with it, and it goes on at once: nobody
        has to find it first. A turn that leaves nothing to do here, because the run waits, needs no room.
        """
        if asyncio.get_running_loop() is not self._loop:
            return await self._store.create(new)
        start = self._starts.add(new, first)
        stored = await start.stored
        if not stored and not start.plain:
            # Its id or key is taken, or its queue was told something meanwhile. Stored plainly, it shows which.
            start.stored = self._loop.create_future()
            self._store_plainly(start)
            stored = await start.stored
        if start.plain:
            self._others_wait = True
            self.poke()
        else:
            self._timers.expect(start.alarm)
        return stored

    def _begin_start(self, start: Start, limited: frozenset[str]) -> None:
        """Takes the first turn of a new run, where this worker may have it; nothing is awaited until it is held."""
        new, first, target = start.new, start.first, start.new.target
        has_room = self._room > 0
        if new.queue in limited or not (has_room or target in self._waits_first) or not self._may_begin(new):
            self._store_plainly(start)
            return
        assert first.counters is not None  # noqa: S101  # as `create` makes it
        held = self._hold()
        turn = held.begin(new._replace(worker=self._id, begun_at=first.counters.started_at), first, start.stored)
        if (asleep := held.commit_asleep(first.counters.started_at + FAR_MS)) is not None:
            self._waits_first.add(target)
            held.drop()  # before its commit: of thousands that go to sleep together none has to be in memory
            self._say(new.id, held.notices)
            start.alarm = turn.batch.alarm
            self._committer.hand_in(asleep, start.answered, 0)
        elif not turn.waiting.in_flight:
            self._waits_first.add(target)
            self._drive(new.id, held)
        else:
            self._waits_first.discard(target)
            if has_room:
                self._drive(new.id, held)
            else:
                held.drop()
                self._store_plainly(start)

    async def signal(self, run_id: str, mail: Mail, message_id: str | None) -> None:
        """Stores a signal. A run that waits in this worker's memory takes it at once: nobody has to find it first."""
        held = self._cache.get(run_id)
        may_have_it = self._room > 0 and not self._quarantine.closed and asyncio.get_running_loop() is self._loop
        if held is None or held.watched or not may_have_it:
            await self._store.send(run_id, mail, message_id)
            self.poke()
            return
        self._meant[run_id] += 1
        try:
            number, claim = await self._store.signal_and_claim(self._id, run_id, mail, message_id)
            if claim is None or number is None:
                self.poke()
            elif number == held.seen + 1 and self._cache.get(run_id) is held and held.is_current(claim):
                self._cache.pop(run_id)
                self._take([(claim, held, Contents(None, sent=((number, mail),)))])
            else:
                await self._begin([claim])
        except CommitUnknownError:
            self._orphaned.set()  # it may be leased, and is not held
            raise
        finally:
            self._meant[run_id] -= 1
            if not self._meant[run_id]:
                del self._meant[run_id]

    def _may_begin(self, new: NewRun) -> bool:
        return (
            not self._stopping
            and not self._quarantine.closed
            and new.delay_ms <= 0
            and (self._queues is None or new.queue in self._queues)
            and new.id not in self._held
            and self._definitions.workflow(new.target) is not None
        )

    def _store_plainly(self, start: Start) -> None:
        """Stores a new run for anybody to claim."""
        start.plain = True
        commit = narrowed(Full(lease=Lease(start.new.id, 0), status="pending", new=start.new))
        self._committer.hand_in(commit, start.answered, 0)

    def _take(self, claimed: Sequence[tuple[Claim, HeldRun, Contents]]) -> None:
        """Lets claimed runs go on: in the worker's own context, whoever signalled them here."""
        context = self._context.copy()
        with CollectorPaused():
            for claim, held, contents in claimed:
                context.run(self._take_one, claim, held, contents)

    def _take_one(self, claim: Claim, held: HeldRun, contents: Contents) -> None:
        unreadable: Exception | None = None
        try:
            held.take(claim, contents)
            held.go_on()
        except Exception as error:  # noqa: BLE001  # edge 2 of 3: it is raised in the run's own task
            unreadable = error
        self._drive(claim.lease.run_id, held, unreadable)

    def _drive(self, run_id: str, held: HeldRun, unreadable: Exception | None = None) -> None:
        self._held[run_id] = held
        if self._begun_meanwhile is not None:
            self._begun_meanwhile.add(run_id)
        # In the worker's own context: what runs see must not depend on who started or signalled them here.
        self._driving[run_id] = asyncio.create_task(self._drive_on(run_id, held, unreadable), context=self._context)

    async def _drive_on(self, run_id: str, held: HeldRun, unreadable: Exception | None) -> None:
        left = "lost"
        try:
            try:
                if unreadable is not None:
                    raise unreadable
                left = await held.advance()
            except (RecordError, DecodingError) as error:
                left = await held.park(error)  # its rows cannot be read here: trying again would not help
            self._failures.pop(run_id, None)
        except EnvironmentFault as error:
            log.warning("run %s: %s", run_id, error)
            self._orphaned.set()
        except Exception:
            log.exception("run %s could not be advanced", run_id)  # edge 2 of 3: one run must not stop the worker
            self._failures[run_id] += 1
            self._orphaned.set()
        finally:
            if self._held.get(run_id) is held:
                del self._held[run_id]
            if self._driving.get(run_id) is asyncio.current_task():
                del self._driving[run_id]
            self._let_go(run_id, held, left)
        self._say(run_id, held.notices)

    @staticmethod
    def _say(run_id: str, notices: list[str]) -> None:
        for notice in notices:
            log.warning("run %s: %s", run_id, notice)
        notices.clear()

    async def _adopt(self) -> None:
        """Takes up again what this worker has the lease of and does not hold: a commit of it failed, or nobody knows.

        A run that cannot be advanced, whatever the store says, is parked after some tries.
        """
        while True:
            await self._orphaned.wait()
            self._orphaned.clear()
            await asyncio.sleep(self._place.pace.orphans)
            try:
                async with self._claiming:
                    await self._take_up_orphans()
            except BaseException:
                self._orphaned.set()
                raise

    async def _take_up_orphans(self) -> None:
        await self._tasks.give_back(self._id)
        begun = self._begun_meanwhile = {*self._held, *self._meant}
        try:
            leased = await self._store.leased(self._id)
        finally:
            self._begun_meanwhile = None
        known = {*begun, *self._held, *self._meant}
        lost = [claim for claim in leased if claim.lease.run_id not in known]
        for claim in [claim for claim in lost if self._failures[claim.lease.run_id] >= TRIES]:
            lost.remove(claim)
            self._failures.pop(claim.lease.run_id)
            reason = f"InternalError: {TRIES} tries to advance it failed; the log says why"
            await self._committer.add(Park(lease=claim.lease, reason=reason, capability=self._capability))
        if lost:
            await self._begin(lost)

    def _let_go(self, run_id: str, held: HeldRun, left: str) -> None:
        # The run may have been claimed again before its last turn came to rest here: then this one is the older.
        if left == "suspended" and run_id not in self._held:
            if held.waits_beyond(FAR_MS):
                held.drop()
            else:
                self._cache.put(run_id, held)
            self._timers.expect(held.timer)
        else:
            held.drop()
        if self._others_wait:
            self.poke()

    # --- lost workers

    async def _sweep(self) -> None:
        first = True
        while True:
            try:
                if (first or self._housekeeper.holds("sweep")) and await self._sweep_once():
                    self.poke()
                self._definitions.stored = await self._programs.refresh()
            except EnvironmentFault as error:
                log.warning("lost workers could not be looked for: %s", error)
            first = False
            await asyncio.sleep(self._lease_ms / 1000 * self._place.pace.sweep)

    async def _sweep_once(self) -> int:
        """Takes leases from workers that are gone: a process of this machine at once, others after their time."""
        here = this_process()
        alive = await self._store.live_workers()
        gone = [one.id for one in alive if is_gone(Process(one.machine, one.pid, one.pid_began), here)]
        if gone:
            log.info("workers of this machine whose processes are gone: %s", ", ".join(gone))
            await self._store.declare_lost(gone)
        return await self._store.sweep(self._max_reclaims, 100)


def _drop(runs: Iterable[HeldRun]) -> None:
    """Closes runs that are neither held nor in the cache: nobody else would, before the garbage collector does."""
    for held in runs:
        held.drop()


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Until one of these is over; the others are given up."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)


async def _end(tasks: Sequence[asyncio.Task[None]] | Sequence[asyncio.Task[object]]) -> None:
    """Cancels tasks, and waits until they are over."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
