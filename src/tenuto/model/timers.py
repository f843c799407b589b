"""Durable waiting, the run's own time, and its own chance."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

from tenuto.kernel.location import check_name
from tenuto.kernel.operations import SleepOp
from tenuto.model.durations import Duration, milliseconds, moment, point
from tenuto.model.place import current, reading

__all__ = ["now", "random", "sleep", "sleep_until", "uuid4"]


def sleep(duration: Duration, /, *, name: str = "sleep") -> Coroutine[Any, Any, None]:
    """Waits that long, through restarts and redeployments; the deadline is recorded once.

    await sleep("7 days")
    """
    current("sleep()")
    return _sleep(SleepOp(check_name(name), duration_ms=milliseconds(duration)))


def sleep_until(when: datetime, /, *, name: str = "sleep") -> Coroutine[Any, Any, None]:
    """Waits until that moment (an aware datetime); a past one counts as now.

    await sleep_until(invoice.due_at)
    """
    current("sleep_until()")
    return _sleep(SleepOp(check_name(name), until_ms=moment(when)))


async def _sleep(operation: SleepOp) -> None:
    await current("sleep()").port.issue(operation)


def now() -> datetime:
    """The run's time, in UTC: that of the last thing that happened to it, and the same on replay."""
    return point(reading("now()").port.now())


def random() -> Random:
    """The random numbers of this scope: the same ones on replay, so not for secrets.

    Only `.random()` and `.getrandbits()` give the same on every version of Python.

        if random().random() < 0.1:
            await audit(order)
    """
    place = current("random()")
    seed = place.port.entropy("random")
    randoms = place.run.randoms
    found = randoms.get(seed)
    if found is None:
        found = randoms[seed] = Random(int.from_bytes(seed, "big"))  # noqa: S311  # replayable by design, see above
    return found


def uuid4() -> UUID:
    """A new UUID of this run, the same on replay: predictable, so not for secrets."""
    return UUID(bytes=current("uuid4()").port.entropy("uuid"), version=4)
