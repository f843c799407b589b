"""An entity: a run that lives for as long as its subject does and changes only by the signals it gets.

The number is the state of `receive`: each handler gets the present one and returns the next. With `checkpoint_every`
the number itself is stored now and then and the signals before are forgotten, so a counter that has been counting for
years is loaded as fast as a new one.
"""

from __future__ import annotations

from tenuto import NoReply, Stop, publish_state, receive, workflow


def increment(total: int, by: int = 1) -> NoReply[int]:
    publish_state(total + by)
    return NoReply(total + by)


def decrement(total: int, by: int = 1) -> NoReply[int]:
    return increment(total, -by)


def done(total: int) -> Stop[int]:
    return Stop(total)


@workflow
async def counter(start: int = 0) -> int:
    publish_state(start)
    total, _ = await receive(
        start,
        signals={"increment": increment, "decrement": decrement, "done": done},
        checkpoint_every=100,
    )
    return total


@counter.query("value")
def value(published: int | None) -> int:
    return published or 0
