"""What becomes of work whose workers are lost again and again. Pure, the same in every store.

A first loss is ordinary: a deploy, a machine that went away. Work that was lost again without a commit in between is a
*suspect*: it is claimed apart from all other work and in ever smaller groups, so that what kills its worker is soon
alone. Only a loss while a run was all its worker had adds a strike against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tenuto.store.port import Claim, ClaimedTask

__all__ = ["SUSPECT", "Suspect", "Suspects", "largest_group", "quarantine_ms", "strikes_after", "together"]

SUSPECT: Final = 2  # losses without a commit in between
QUARANTINE_MS: Final = 5_000  # at least so long a suspect has to live to be trusted


class Suspect(NamedTuple):
    """A suspect that can be claimed."""

    id: str
    reclaims: int
    survived_ms: int  # how long its last holder lived, since it had claimed it
    is_run: bool


@dataclass(frozen=True, slots=True)
class Suspects:
    """Suspects that were claimed together."""

    runs: Sequence[Claim] = ()
    tasks: Sequence[ClaimedTask] = ()
    survived_ms: int = 0  # how long the last holder of any of them lived


def largest_group(concurrency: int, reclaims: int = SUSPECT) -> int:
    """How many suspects that lost so many workers one worker may have: a quarter of those before, at last one."""
    return max(1, concurrency // (1 << 2 * (reclaims - 1)))


def together(suspects: Iterable[Suspect], concurrency: int, room: int) -> list[Suspect]:
    """Those to claim next, out of all there are, the last claimed first: it is the likeliest killer."""
    chosen: list[Suspect] = []
    for suspect in suspects:
        if not chosen:
            room = min(room, largest_group(concurrency, suspect.reclaims))
        if len(chosen) < room and suspect.reclaims <= (chosen[0].reclaims if chosen else suspect.reclaims):
            chosen.append(suspect)
    return chosen


def strikes_after(strikes: int, reclaims: int, *, alone: bool) -> int:
    """The strikes of a run that was lost once more. They count from its last commit, as `reclaims` before this loss."""
    return (strikes if reclaims else 0) + alone


def quarantine_ms(survived_ms: int) -> int:
    """How long a suspect has to live to be trusted, whose last holder lived so long with it."""
    return max(QUARANTINE_MS, 2 * survived_ms)
