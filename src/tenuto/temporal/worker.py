"""The workers of this process: one per task queue, for the runs and for the steps."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any, Final

from temporalio.exceptions import TemporalError
from temporalio.worker import Worker

from tenuto.host.limits import Limits
from tenuto.host.options import WorkerOptions
from tenuto.model.definitions import Workflow
from tenuto.model.registry import Registry, Sort
from tenuto.system import Runner, own_threads
from tenuto.temporal.activities import Activities, pulse_of
from tenuto.temporal.connection import Connection
from tenuto.temporal.settings import DEFAULT_QUEUE, Site
from tenuto.temporal.workflows import AtSite, TenutoWorkflow

__all__ = ["Workers"]

log = logging.getLogger("tenuto.temporal")

LONGEST_TURN: Final = 8  # seconds; the server gives a task ten
RESTART_AFTER: Final = 1.0  # seconds
SORTS: Final[tuple[Sort, ...]] = ("workflow", "step")


class Workers:
    """Started with the app, stopped with it."""

    def __init__(self, connection: Connection, options: WorkerOptions, limits: Limits) -> None:
        self._connection = connection
        self._options = options
        lease = timedelta(milliseconds=options["lease_ms"])
        self._site = Site(connection.address.task_queue, lease, limits, connection.registry)
        self._serving: list[asyncio.Task[None]] = []
        self._workers: dict[str, Worker] = {}  # by task queue
        self._stopping = False
        self._runner: Runner | None = None

    async def start(self) -> None:
        """Serves the queues that were named, else the default one and those that registered definitions name."""
        address, options = self._connection.address, self._options
        self._stopping = False
        queues = options["queues"] if options["queues"] is not None else _known_queues(self._connection.registry)
        task_queues = list(dict.fromkeys(address.task_queue_of(queue) for queue in queues))
        self._runner = own_threads(options["concurrency"])
        activities = Activities(self._runner, self._site.limits, self._site.registry)
        for task_queue in task_queues:
            serving = self._serve(task_queue, activities)
            self._serving.append(asyncio.create_task(serving, name=f"tenuto-{task_queue}"))

    async def _serve(self, task_queue: str, activities: Activities) -> None:
        """Runs a worker until it is told to stop; one that breaks down is replaced."""
        while not self._stopping:
            try:
                worker = self._workers[task_queue] = self._worker(task_queue, activities)
                await worker.run()
            except (RuntimeError, TemporalError) as error:
                log.error("the worker of task queue %s broke down, another one is started: %s", task_queue, error)
                await asyncio.sleep(RESTART_AFTER)

    def _worker(self, task_queue: str, activities: Activities) -> Worker:
        options, lease, cached = self._options, self._site.lease, self._connection.address.cached_runs
        pulse = timedelta(seconds=pulse_of(lease))
        worker = Worker(
            self._connection.client,
            task_queue=task_queue,
            workflows=[TenutoWorkflow],
            interceptors=[AtSite(self._site)],
            activities=[activities.attempt],
            max_cached_workflows=cached,
            # Without a cache a run that comes drops the one before it, in the middle of what it computes in place.
            max_concurrent_workflow_tasks=None if cached else 1,
            max_concurrent_activities=options["concurrency"],
            # How late a step may hear that it is to stop, and how late others take over from a lost worker.
            max_heartbeat_throttle_interval=pulse,
            default_heartbeat_throttle_interval=pulse,
            sticky_queue_schedule_to_start_timeout=min(lease, timedelta(seconds=10)),
            graceful_shutdown_timeout=timedelta(seconds=options["grace"]),
        )
        _give_turns_time(worker)
        return worker

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.sleep(0)  # one that was just asked for has begun
        await asyncio.gather(*(worker.shutdown() for worker in self._workers.values()))
        await asyncio.gather(*self._serving)
        self._workers.clear()
        self._serving.clear()
        self._site.close()
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def _give_turns_time(worker: Worker) -> None:
    """A turn that begins thousands of things takes seconds on a busy machine, and is no deadlock for that.

    The SDK says two seconds, or never. Never would leave a thread to code that does not end, and say nothing.
    """
    workflows: Any = getattr(worker, "_workflow_worker", None)
    if getattr(workflows, "_deadlock_timeout_seconds", None) is not None:
        workflows._deadlock_timeout_seconds = LONGEST_TURN


def _known_queues(registry: Registry) -> list[str]:
    queues = [DEFAULT_QUEUE]
    for sort in SORTS:
        for item in registry.definitions(sort):
            known: Any = item
            queue: str | None = known.queue if isinstance(item, Workflow) else known.spec.queue
            if queue is not None:
                queues.append(queue)
    return queues
