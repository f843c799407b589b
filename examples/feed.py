"""A polling loop for years: pages of a feed are fetched and delivered in bounded history.

`loop` stores the cursor every few pages and forgets the steps before, so replay is short however long it has been
polling. After a number of pages the run continues as new: the next one has an empty history, and the code of the day
without a thought about the history of the day before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from tenuto import Break, Continue, ContinueAsNew, loop, now, publish_state, run_info, sleep, step, workflow

PAGES_PER_RUN = 100
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(minutes=1)

entries: list[str] = []  # stands for the feed; "end" is its last entry
delivered: list[str] = []  # stands for who wants to know


@dataclass(frozen=True, slots=True)
class Position:
    cursor: int
    pages: int = 0
    wait: timedelta = SHORTEST
    ended: bool = False


@step(timeout="10s", max_attempts=10)
async def fetch(cursor: int) -> list[str]:
    return entries[cursor : cursor + 3]


@step
async def deliver(entry: str) -> None:
    delivered.append(entry)


async def poll(at: Position) -> Continue[Position] | Break[Position]:
    """One page. Nothing but the position goes from one page to the next."""
    page = await fetch(at.cursor)
    for number, entry in enumerate(page):
        if entry == "end":
            return Break(replace(at, cursor=at.cursor + number, ended=True))
        await deliver(entry)
    at = Position(at.cursor + len(page), at.pages + 1, SHORTEST if page else min(at.wait * 2, LONGEST))
    publish_state({"delivered": at.cursor, "polled": now(), "run": run_info().run_no})
    if at.pages == PAGES_PER_RUN:
        return Break(at)
    if not page:
        await sleep(at.wait)
    return Continue(at)


@workflow
async def follow(cursor: int = 0) -> int | ContinueAsNew:
    """How many entries the feed had."""
    at = await loop("poll", Position(cursor), poll, commit_interval=20)
    return at.cursor if at.ended else ContinueAsNew(at.cursor)


@follow.query("delivered")
def delivered_so_far(published: dict[str, Any] | None) -> int:
    return 0 if published is None else published["delivered"]
