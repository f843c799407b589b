"""The loop that claims runs and takes their turns."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from tenuto.codec.values import dump, load
from tenuto.errors import EnvironmentFault
from tenuto.host.attempts import run_limited
from tenuto.host.commit import Committer
from tenuto.host.definitions import Definitions
from tenuto.host.leases import Renewal
from tenuto.host.runs import HeldRun
from tenuto.host.waiters import Ending
from tenuto.kernel.commands import RunStep
from tenuto.kernel.location import parse
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.kernel.retries import GiveUp, Retry, judge
from tenuto.model.definitions import Step
from tenuto.model.steps import StepCall
from tenuto.store.port import Claim, ClaimedTask, Store, TaskEnd

__all__ = ["Worker"]

log = logging.getLogger("tenuto.host")

POLL: Final = 1.0  # seconds: the net under notifications that were lost
LISTEN_PAUSE: Final = 0.02  # seconds between two looks that news caused
LISTEN_PAUSE_LONGEST: Final = 0.1  # the same after looks that found nothing: the news was of our own commits
CACHED_RUNS: Final = 1000  # suspended runs kept in memory to be spared a replay


def _nobody(run_id: str, ending: Ending | None) -> None:
    """Nobody here waits for runs."""


class Worker:
    """One worker: claims what is ready, advances it, lets it go."""

    def __init__(
        self,
        store: Store,
        *,
        queues: Sequence[str] | None,
        concurrency: int,
        lease_ms: int,
        block_limit: float,
        grace: float,
        max_reclaims: int,
        tell: Callable[[str, Ending | None], None] = _nobody,
    ) -> None:
        self._store = store
        self._tell = tell  # those who wait for something about a run
        self._queues = queues
        self._concurrency = concurrency
        self._lease_ms = lease_ms
        self._block_limit = block_limit
        self._grace = grace
        self._max_reclaims = max_reclaims
        self._definitions = Definitions()
        self._committer = Committer(store)
        self._threads = ThreadPoolExecutor(thread_name_prefix="tenuto-step")
        self._held: dict[str, HeldRun] = {}
        self._cache: OrderedDict[str, HeldRun] = OrderedDict()
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._poked = asyncio.Event()
        self._pause = LISTEN_PAUSE
        self._timers_changed = asyncio.Event()
        self._next_timer: int | None = None
        self._stopping = False
        self._renewal: Renewal | None = None
        self._id = ""
        self._capability = ""

    # --- life

    async def start(self) -> None:
        await self._register()
        self._loops = [
            self._forever("claims", self._claim),
            self._forever("timers", self._fire),
            self._forever("sweep", self._sweep),
            self._forever("news", self._listen),
        ]

    async def _register(self) -> None:
        self._id = f"w-{secrets.token_hex(8)}"
        self._capability = self._definitions.capability(self._queues)
        await self._store.register(self._id, self._lease_ms, self._capability, self._definitions.hashes())
        self._renewal = Renewal(self._store, self._id, self._lease_ms, self._block_limit, self._lost)
        self._renewal.start()

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
            await asyncio.sleep(POLL)

    async def stop(self) -> None:
        """Stops claiming, lets work in flight end within the grace time, then gives everything back."""
        self._stopping = True
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        work = [*self._driving.values(), *self._tasks.values()]
        if work:
            await asyncio.wait(work, timeout=self._grace)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for held in (*self._held.values(), *self._cache.values()):
            held.drop()
        if self._renewal is not None:
            await asyncio.to_thread(self._renewal.stop)
        with suppress(EnvironmentFault):
            await self._store.deregister(self._id)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _lost(self) -> None:
        """The lease ran out: everything in memory may be somebody else's by now. Starts over under a new id."""
        log.warning("worker %s lost its lease and starts over", self._id)
        for task in (*self._driving.values(), *self._tasks.values()):
            task.cancel()
        for held in (*self._held.values(), *self._cache.values()):
            held.drop()
        self._held.clear()
        self._cache.clear()
        if not self._stopping:
            self._loops.append(self._forever("register", self._register))

    @property
    def busy(self) -> bool:
        """Whether any run is being advanced."""
        return bool(self._driving)

    def poke(self) -> None:
        """Something in this process was stored that may be claimed: look at once."""
        self._poked.set()

    # --- claims

    async def _claim(self) -> None:
        while True:
            self._poked.clear()
            self._pause = min(LISTEN_PAUSE_LONGEST, self._pause * 1.5)
            try:
                more = await self._claim_once()
            except EnvironmentFault as error:
                log.warning("nothing could be claimed: %s", error)
                more = False
            if not more:
                await _wait(self._poked, POLL)

    async def _listen(self) -> None:
        """Looks for work when something was committed by anyone; often, but not at every commit of our own."""
        mark = -1
        while True:
            try:
                mark = await self._store.changed(mark, POLL)
            except EnvironmentFault as error:
                log.warning("news could not be heard: %s", error)
                await asyncio.sleep(POLL)
            self.poke()
            await asyncio.sleep(self._pause)

    async def _claim_once(self) -> bool:
        """Takes what there is room for; whether there may be more."""
        if self._held:
            for run_id in await self._store.absorb(list(self._held)):
                self._pause = LISTEN_PAUSE
                if (held := self._held.get(run_id)) is not None:
                    held.mail_arrived()
        # Together: a store that groups its writes makes one commit of both.
        return any(await asyncio.gather(self._claim_runs(), self._claim_tasks()))

    async def _claim_runs(self) -> bool:
        room = self._concurrency - len(self._driving)
        if room <= 0:
            return False
        claims = await self._store.claim_runs(self._id, self._definitions.workflows(), room)
        for claim in claims:
            self._pause = LISTEN_PAUSE
            self._begin(claim)
        return len(claims) >= room

    async def _claim_tasks(self) -> bool:
        room = self._concurrency - len(self._tasks)
        if room <= 0:
            return False
        tasks = await self._store.claim_tasks(self._id, self._definitions.steps(), self._queues, room)
        for task in tasks:
            self._pause = LISTEN_PAUSE
            self._tasks[task.id] = asyncio.create_task(self._run_task(task))
        return len(tasks) >= room

    def _begin(self, claim: Claim) -> None:
        run_id = claim.lease.run_id
        held = self._cache.pop(run_id, None)
        if held is None:
            workflow = self._definitions.workflow(claim.record.target)
            assert workflow is not None  # noqa: S101  # only known ones are claimed
            held = HeldRun(
                self._store,
                self._committer,
                self._definitions,
                self._threads,
                workflow,
                self._capability,
                self._tell,
            )
        self._held[run_id] = held
        self._driving[run_id] = asyncio.create_task(self._drive(run_id, held, claim))

    async def _drive(self, run_id: str, held: HeldRun, claim: Claim) -> None:
        left = "lost"
        try:
            await held.take(claim)
            left = await held.advance()
        except EnvironmentFault as error:
            log.warning("run %s: %s", run_id, error)  # its lease is swept, or the run is claimed again
        except Exception:
            log.exception("run %s could not be advanced", run_id)  # edge 2 of 3: one run must not stop the worker
        finally:
            if self._held.get(run_id) is held:
                del self._held[run_id]
            if self._driving.get(run_id) is asyncio.current_task():
                del self._driving[run_id]
            self._let_go(run_id, held, left)
        for notice in held.notices:
            log.warning("run %s: %s", run_id, notice)
        held.notices.clear()

    def _let_go(self, run_id: str, held: HeldRun, left: str) -> None:
        # The run may have been claimed again before its last turn came to rest here: then this one is the older.
        if left == "suspended" and run_id not in self._held:
            older = self._cache.pop(run_id, None)
            if older is not None and older is not held:
                older.drop()
            self._cache[run_id] = held
            while len(self._cache) > CACHED_RUNS:
                self._cache.popitem(last=False)[1].drop()
            if held.timer is not None and (self._next_timer is None or held.timer < self._next_timer):
                self._timers_changed.set()
        else:
            held.drop()
        self.poke()

    # --- tasks

    async def _run_task(self, task: ClaimedTask) -> None:
        try:
            step = self._definitions.step(task.target)
            if step is None:
                return
            call = StepCall(step, None, task.input)
            command = RunStep(
                parse(task.location), task.attempt, call, task.timeout_ms, task.heartbeat_ms, task.id, step.name
            )
            outcome = await run_limited(self._store, command, task.run_id, self._threads)
            await self._store.end_task(await self._ending(task, step, outcome))
        except EnvironmentFault as error:
            log.warning("task %s: %s", task.id, error)
        finally:
            self._tasks.pop(task.id, None)
            self.poke()

    async def _ending(self, task: ClaimedTask, step: Step[..., Any], outcome: Ok | Err | TimedOut) -> TaskEnd:
        if isinstance(outcome, Ok):
            return TaskEnd(task.id, task.epoch, outcome.value, None, task.attempt)
        timed_out = isinstance(outcome, TimedOut)
        error = TimeoutError("the attempt ran out of time") if isinstance(outcome, TimedOut) else load(outcome.error)
        verdict = judge(
            step.spec,
            task.location,
            task.attempt,
            error,
            unencodable=isinstance(outcome, Err) and outcome.unencodable,
            timed_out=timed_out,
            after_ms=outcome.after_ms if isinstance(outcome, Err) else None,
        )
        match verdict:
            case Retry(after_ms=after_ms):
                retry_at = await self._store.now() + after_ms
                return TaskEnd(task.id, task.epoch, None, dump(error), task.attempt, retry_at)
            case GiveUp(error=failure):
                return TaskEnd(task.id, task.epoch, None, dump(failure), task.attempt)

    # --- timers, lost workers

    async def _fire(self) -> None:
        while True:
            self._timers_changed.clear()
            wait = POLL
            try:
                self._next_timer = await self._store.fire_timers(500)
                self.poke()
                if self._next_timer is not None:
                    wait = max(0.0, min(POLL, (self._next_timer - await self._store.now()) / 1000))
            except EnvironmentFault as error:
                log.warning("timers could not be looked at: %s", error)
            await _wait(self._timers_changed, wait)

    async def _sweep(self) -> None:
        while True:
            try:
                if await self._store.sweep(self._max_reclaims, 100):
                    self.poke()
            except EnvironmentFault as error:
                log.warning("lost workers could not be looked for: %s", error)
            await asyncio.sleep(self._lease_ms / 3000)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event, at most so long. (`wait_for` may swallow a cancellation that comes with the event.)"""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
