"""How much of everything there may be, and holding runs to it.

Limits of values and of fan-out hold where code calls us, so they are put into the context it runs in: of a client's
call, of a worker's loops, of a run's own tasks. The rest is counted by the worker and by the store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

from tenuto.codec.keys import pack
from tenuto.codec.limits import DEFAULT_LIMITS, IN_FORCE, ValueLimits
from tenuto.codec.rows import HISTORY
from tenuto.errors import ConfigError, LimitError
from tenuto.model.branches import FAN_OUT, fan_out
from tenuto.store.commits import Puts
from tenuto.store.limits import BUFFERED_MESSAGES

__all__ = ["HistorySize", "Limits", "under_limits"]

Verb = TypeVar("Verb", bound=Callable[..., Coroutine[Any, Any, Any]])
_HISTORY: Final = pack((HISTORY,))
WAY_OUT: Final = "return ContinueAsNew before that"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything there may be, for `Tenuto(limits=...)`; above it something is refused with `LimitError`.

    app = Tenuto(limits=Limits(value_bytes=8 * 2**20, history_entries=100_000))
    """

    value_bytes: int = DEFAULT_LIMITS.size  # one encoded value: an argument list, a result, a signal
    buffered_messages: int = BUFFERED_MESSAGES  # of one run, sent and not taken yet
    history_entries: int = 50_000  # of one run; then it is parked, and ContinueAsNew is the way out
    history_bytes: int = 50 * 2**20
    fan_out: int = FAN_OUT  # branches of one parallel, join or race
    commands_per_turn: int = 10_000  # steps, timers, tasks and children that one turn begins; then it is parked
    page: int = 500  # runs in one answer

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"Limits({field.name}={value!r}): a limit is a whole number of at least 1")

    def apply(self) -> None:
        """Puts what is asked at calls into the context that is current, for as long as that lasts."""
        IN_FORCE.set(_values_of(self.value_bytes))
        fan_out.set(self.fan_out)

    def in_force(self) -> AbstractContextManager[None]:
        """The same for a block."""
        return _InForce(self)


@lru_cache(maxsize=16)  # an app has one, and every run asks for it
def _values_of(size: int) -> ValueLimits:
    return ValueLimits(size, DEFAULT_LIMITS.depth)


class _InForce:
    """A class and no generator: every verb of an engine enters it."""

    __slots__ = ("_limits", "_tokens")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        values = _values_of(self._limits.value_bytes)
        self._tokens = IN_FORCE.set(values), fan_out.set(self._limits.fan_out)

    def __exit__(self, *_: object) -> None:
        values, branches = self._tokens
        fan_out.reset(branches)
        IN_FORCE.reset(values)


def under_limits(verb: Verb) -> Verb:
    """A verb of an engine, with the engine's limits and its registry in force while it is at work."""

    @wraps(verb)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        with self.limits.in_force(), self.registry.in_force():
            return await verb(self, *args, **kwargs)

    return cast("Verb", call)


class HistorySize:
    """How long the history of a run in memory is: at most so much, since what is written twice counts twice."""

    __slots__ = ("_bytes", "_entries", "_limits", "_many", "_much", "_warned", "is_large")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries = 0
        self._bytes = 0
        self._many = limits.history_entries // 2
        self._much = limits.history_bytes // 2
        self._warned = False
        self.is_large = False  # more than half of what is allowed: worth a look

    def measure(self, stored: Sequence[tuple[bytes, bytes]]) -> None:
        """Takes it exactly, from the rows that are there."""
        history = [(key, value) for key, value in stored if key.startswith(_HISTORY)]
        self._entries = len(history)
        self._bytes = sum(len(key) + len(value) for key, value in history)
        self.is_large = self._entries > self._many or self._bytes > self._much

    @property
    def memory(self) -> int:
        """About how many bytes a run with this history takes in memory; measured, not counted."""
        return 14_000 + 570 * self._entries + self._bytes

    def add(self, puts: Puts) -> int:
        """Count what a turn puts, and return how many bytes that is."""
        size = 0
        for key, value in puts:
            size += len(key) + len(value)
            self._entries += 1
        self._bytes += size
        self.is_large = self._entries > self._many or self._bytes > self._much
        return size

    def warning(self) -> str | None:
        """What to say once, at half of a limit."""
        limits = self._limits
        if self._warned or not self.is_large:
            return None
        self._warned = True
        return (
            f"its history has about {self._entries:,} entries and {self._bytes:,} bytes, more than half of what it may "
            f"have ({limits.history_entries:,}, {limits.history_bytes:,}): let it return ContinueAsNew"
        )

    def excess(self) -> LimitError | None:
        """Why the run is parked, if it is too long."""
        limits = self._limits
        if self._entries > limits.history_entries:
            return LimitError(f"entries in one history ({WAY_OUT})", limits.history_entries, self._entries)
        if self._bytes > limits.history_bytes:
            return LimitError(f"bytes in one history ({WAY_OUT})", limits.history_bytes, self._bytes)
        return None
