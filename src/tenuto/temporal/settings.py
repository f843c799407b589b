"""Where the cluster is, and what a worker of this process was told."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from threading import Lock
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from temporalio.common import Priority

from tenuto.errors import ConfigError
from tenuto.host.limits import Limits
from tenuto.model.registry import Registry, default
from tenuto.store.urls import shown_url

__all__ = ["DEFAULT_QUEUE", "LIMITS", "VALUE_BYTES", "Address", "Site", "limits_of", "priority_of"]

DEFAULT_QUEUE: Final = "default"  # the queue of everything that names none
VALUE_BYTES: Final = 2 * 2**20 - 64 * 2**10  # the server's limit, less what is written around a value
LIMITS: Final = Limits(value_bytes=VALUE_BYTES)
_FORM: Final = "temporal://host:7233/namespace?task_queue=name"


def limits_of(limits: Limits | None) -> Limits:
    """The limits of an app on a cluster; `ConfigError` for those that only a store of ours can hold."""
    if limits is None:
        return LIMITS
    held = ("value_bytes", "fan_out", "page")
    others = [field.name for field in fields(Limits) if field.name not in held]
    for name in others:
        if getattr(limits, name) != getattr(LIMITS, name):
            raise ConfigError(f"Limits({name}=): on a Temporal cluster the server has its own; leave it out")
    return replace(limits, value_bytes=min(limits.value_bytes, VALUE_BYTES))


class Closeable(Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    """A namespace of a cluster, and the task queue that stands for the queue `default`."""

    host: str
    namespace: str
    task_queue: str
    cached_runs: int  # how many runs a worker keeps in memory
    tls: bool
    api_key: str | None

    @classmethod
    def parse(cls, url: str) -> Address:
        """What a URL says; `ConfigError` if it says something else."""
        shown = shown_url(url)
        try:
            parts = urlsplit(url)
            port = parts.port
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:  # its text may have a password in it
            raise ConfigError(f"{shown} cannot be split; a Temporal URL looks like {_FORM}") from None
        namespace = unquote(parts.path.strip("/")) or "default"
        if parts.scheme != "temporal" or not parts.hostname or "/" in namespace or "@" in parts.netloc:
            raise ConfigError(f"{shown} is not a Temporal URL: {_FORM}")
        unknown = options.keys() - {"task_queue", "cache", "tls"}
        if unknown:
            raise ConfigError(f"{shown}: there is no option {min(unknown)!r}; there are task_queue, cache and tls")
        cached = options.get("cache", "1000")
        tls = options.get("tls", "false")
        if not cached.isdecimal() or tls not in ("true", "false"):
            raise ConfigError(f"{shown}: cache= is a number of runs, tls= is true or false")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            host=f"{host}:{port or 7233}",
            namespace=namespace,
            task_queue=options.get("task_queue") or "tenuto",
            cached_runs=int(cached),
            tls=tls == "true",
            api_key=os.environ.get("TEMPORAL_API_KEY") or None,  # never in a URL: those end up in logs
        )

    def task_queue_of(self, queue: str | None) -> str:
        """The task queue that stands for one of our queues."""
        return self.task_queue if queue is None or queue == DEFAULT_QUEUE else queue

    def queue_of(self, task_queue: str) -> str:
        return DEFAULT_QUEUE if task_queue == self.task_queue else task_queue


@dataclass(frozen=True, slots=True)
class Site:
    """What the runs of one app's workers in this process share."""

    task_queue: str = "tenuto"  # that stands for the queue `default`
    lease: timedelta = timedelta(seconds=30)  # how long a step's worker may be silent before it counts as lost
    limits: Limits = LIMITS
    registry: Registry = default
    alive: set[Closeable] = field(default_factory=set["Closeable"])  # runs in memory
    lock: Lock = field(default_factory=Lock)  # they come and go on several threads

    def task_queue_of(self, queue: str | None) -> str:
        """The task queue that stands for one of our queues."""
        return self.task_queue if queue is None or queue == DEFAULT_QUEUE else queue

    def enter(self, run: Closeable) -> None:
        with self.lock:
            self.alive.add(run)

    def leave(self, run: Closeable) -> None:
        with self.lock:
            self.alive.discard(run)

    def close(self) -> None:
        """Closes what is left once the workers have stopped: the SDK keeps its cache to the end."""
        for run in list(self.alive):
            run.close()


def priority_of(priority: int) -> Priority:
    """Ours grows with urgency from 0; Temporal's keys go from 5, the least urgent, to 1."""
    return Priority(priority_key=min(5, max(1, 3 - priority))) if priority else Priority.default
