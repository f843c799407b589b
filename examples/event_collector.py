"""An entity that starts over: events are collected for a day, written in one go, and the next run begins empty.

`ContinueAsNew` ends the run and starts the next under the same id, with an empty history, in one commit. What was
sent meanwhile is not lost: messages that nobody has taken are handed to the next run in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenuto import ContinueAsNew, NoReply, Stop, publish_state, receive, step, workflow

written: list[tuple[str, ...]] = []  # stands for a warehouse that likes large writes


@dataclass(frozen=True, slots=True)
class Batch:
    events: tuple[str, ...] = ()
    closing: bool = False


@step
async def write(events: tuple[str, ...]) -> None:
    written.append(events)


def add(batch: Batch, event: str) -> NoReply[Batch]:
    publish_state(len(batch.events) + 1)
    return NoReply(replace(batch, events=(*batch.events, event)))


def flush(batch: Batch) -> Stop[Batch]:
    return Stop(batch)


def close(batch: Batch) -> Stop[Batch]:
    return Stop(replace(batch, closing=True))


@workflow
async def collect(batches: int = 0) -> int | ContinueAsNew:
    """How many batches were written until it was closed."""
    publish_state(0)
    batch, _ = await receive(Batch(), signals={"event": add, "flush": flush, "close": close}, timeout="24h")

    if batch.events:
        await write(batch.events)
        batches += 1
    return batches if batch.closing else ContinueAsNew(batches)


@collect.query("waiting")
def waiting(published: int | None) -> int:
    return published or 0
