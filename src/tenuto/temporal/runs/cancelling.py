"""A run that was asked to stop: how long it may take, and what becomes of the tasks it waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from temporalio import workflow

from tenuto.errors import DecodingError
from tenuto.kernel.facts import CancelAsked, Fact
from tenuto.kernel.location import ROOT
from tenuto.temporal.names import CANCEL_WITHIN
from tenuto.temporal.runs.performing import Performer
from tenuto.temporal.runs.run import TemporalRun

__all__ = ["Cancellation", "limit_of"]

GIVE_UP: Final = "tenuto.give-up"  # a patch: a cancelled run waits for no task
LONGEST_CLEAN_UP: Final = 10 * 365 * 86_400_000  # ms: what is more, nobody waits for


class Cancellation:
    """The request to stop, once there is one. `turn` takes a turn, `has_ended` tells whether there is an outcome."""

    def __init__(
        self,
        run: TemporalRun,
        performer: Performer,
        turn: Callable[[Sequence[Fact]], object],
        has_ended: Callable[[], bool],
        next_number: Callable[[], int],
    ) -> None:
        self._run = run
        self._performer = performer
        self._turn = turn
        self._has_ended = has_ended
        self._next_number = next_number
        self._within_ms: int | None = None
        self._gave_up = False
        self.is_asked = False

    def fact(self) -> CancelAsked:
        self.is_asked = True
        return CancelAsked(self._next_number(), workflow.cancellation_reason() or None, self._within_ms)

    def limit(self, within_ms: int) -> None:
        """Said before the request that it belongs to, or after one that is being heeded."""
        self._within_ms = within_ms
        if self.is_asked:
            self._turn([self.fact()])
            self.watch()

    def ask(self) -> None:
        self._turn([self.fact()])
        if self._has_ended():
            self.give_up()  # it waits for what it left behind
        else:
            self.watch()

    def watch(self) -> None:
        """An end of its own holds the limit, too, while tasks that it left behind keep the run open."""
        cancel = self._run.counters.cancel
        if cancel is None or cancel.deadline is None:
            return
        if not self._has_ended() or (self._performer.has_tasks and workflow.patched(GIVE_UP)):
            timers = self._performer.timers
            timers.stop(ROOT)
            timers.wake_at(cancel.deadline, ROOT, self._is_over)

    def _is_over(self) -> None:
        if self._has_ended():
            self.give_up()
        else:
            self._run.clean_up_over = True
            self._turn([])

    def give_up(self) -> None:
        """A run that was cancelled waits for no task: they are asked to stop, and it closes."""
        if self._performer.has_tasks and not self._gave_up and workflow.patched(GIVE_UP):
            self._gave_up = True
            self._performer.abandon(tasks=True)


def limit_of(args: Any) -> int:
    """How long a cancellation may take, as the internal signal says it; somebody else's may say anything."""
    match args:
        case [int() | float() as limit_ms] if 0 <= limit_ms <= LONGEST_CLEAN_UP:
            return int(limit_ms)
        case _:
            raise DecodingError("$", "", f"{CANCEL_WITHIN} says how many milliseconds", "cancel it by its handle")
