"""What one run hands to Temporal: in portions that one message can hold, and never too many things open at once.

Rules:

1. The commands of one workflow task travel in one message, which the server refuses above 4 MB: it ends the run then,
   without undoing anything. What a task has no room for waits for a timer of a millisecond, and with it a task.
2. The server lets a run have 2,000 activities, children and signals open, each. What is above our own, lower number
   waits for one of its kind to end.
3. A task must begin all it begins before the SDK takes it for a deadlock, so a portion has a number of commands too.
4. Waiting changes what a history looks like. A run waits only if a patch says so, asked for when the first thing would
   have to wait: histories of before replay without one, and a run that needs no portions has no marker (P9).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["COMMAND_BYTES", "MOST_BYTES", "MOST_COMMANDS", "MOST_OPEN", "Kind", "Portions"]

Kind: TypeAlias = Literal["activity", "child", "signal", "other"]

MOST_OPEN: Final = 1_500  # of one kind; the server's own limit is 2,000
MOST_COMMANDS: Final = 500  # that one task begins
MOST_BYTES: Final = 3 * 2**20  # that one task hands over; the server's own limit is 4 MB
COMMAND_BYTES: Final = 2048  # of a command beside its values: ids, names, options


class _Waiting(NamedTuple):
    """Something that could not be begun yet."""

    size: int
    begin: Callable[[], None]


class Portions:
    """The commands of one run on their way to the server.

    `task` numbers the workflow tasks, `may_wait` asks for the patch (rule 4), `after_this_task` calls back in another.
    """

    def __init__(
        self,
        task: Callable[[], int],
        may_wait: Callable[[], bool],
        after_this_task: Callable[[Callable[[], None]], None],
    ) -> None:
        self._task = task
        self._may_wait = may_wait
        self._after_this_task = after_this_task
        self._now = -1  # the task that the next two are of
        self._commands = 0
        self._bytes = 0
        self._open: dict[Kind, int] = {"activity": 0, "child": 0, "signal": 0, "other": 0}
        self._waiting: dict[Kind, OrderedDict[Hashable, _Waiting]] = {kind: OrderedDict() for kind in self._open}
        self._is_called_back = False

    @property
    def are_waiting(self) -> bool:
        """True if something has not been begun."""
        return any(self._waiting.values())

    def hand(self, kind: Kind, key: Hashable, size: int, begin: Callable[[], None]) -> None:
        """Begin something, now or when there is room for it. In their order within one kind."""
        self._look_at_task()
        if (self._waiting[kind] or not self._has_room(kind, size)) and self._may_wait():
            self._waiting[kind][key] = _Waiting(size, begin)
            self._call_back()
        else:
            self._begin(kind, size, begin)

    def withdraw(self, key: Hashable) -> bool:
        """True if this was still waiting: now it never begins."""
        return any(waiting.pop(key, None) is not None for waiting in self._waiting.values())

    def ended(self, kind: Kind) -> None:
        """Something that was begun is open no longer: what waits for that begins."""
        self._open[kind] -= 1
        if self._waiting[kind]:
            self._go_on()

    def spent(self, size: int) -> None:
        """The message of this task grows by what nobody handed over: the result of a local activity."""
        self._look_at_task()
        self._bytes += size + COMMAND_BYTES

    def _look_at_task(self) -> None:
        task = self._task()
        if task != self._now:
            self._now = task
            self._commands = self._bytes = 0

    def _has_room(self, kind: Kind, size: int) -> bool:
        if kind != "other" and self._open[kind] >= MOST_OPEN:
            return False
        if self._bytes == 0:  # alone it must fit
            return True
        return self._commands < MOST_COMMANDS and self._bytes + size + COMMAND_BYTES <= MOST_BYTES

    def _begin(self, kind: Kind, size: int, begin: Callable[[], None]) -> None:
        self._commands += 1
        self._bytes += size + COMMAND_BYTES
        if kind != "other":
            self._open[kind] += 1
        begin()

    def _go_on(self) -> None:
        """Begin what there is room for."""
        self._look_at_task()
        for kind, waiting in self._waiting.items():
            while waiting and self._has_room(kind, next(iter(waiting.values())).size):
                _, item = waiting.popitem(last=False)
                self._begin(kind, item.size, item.begin)
        self._call_back()

    def _call_back(self) -> None:
        """Ask for another task, if it is that for which something waits."""
        wanted = any(
            waiting and (kind == "other" or self._open[kind] < MOST_OPEN) for kind, waiting in self._waiting.items()
        )
        if wanted and not self._is_called_back:
            self._is_called_back = True
            self._after_this_task(self._another_task)

    def _another_task(self) -> None:
        self._is_called_back = False
        self._go_on()
