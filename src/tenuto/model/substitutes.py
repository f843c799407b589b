"""What stands in a view for the standard library's clocks, chance, environment and threads.

A substitute acts only in a turn and forwards to the real thing everywhere else, so nothing ever fails on import. It is
found by the identity of what it replaces: `from time import time as clock` is replaced like `time.time`.
"""

from __future__ import annotations

import datetime as real_datetime
import os
import platform
import random as real_random
import secrets
import threading
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, Final

from tenuto.model import timers
from tenuto.model.audit import foreign_call, in_turn

__all__ = ["substitute", "view_print"]

_NS: Final = 1_000_000
_FORBIDDEN_TIME: Final = ("sleep", "process_time", "process_time_ns", "thread_time", "thread_time_ns")
_FORBIDDEN_OS: Final = ("urandom", "getenv", "getcwd", "getcwdb", "getpid", "getppid", "cpu_count", "getenvb")
_HIDDEN: Final = object()


def substitute(value: object) -> Any:
    """What a view has instead of this object of the standard library; None: the object itself."""
    return _table().get(id(value))


@lru_cache(maxsize=1)
def _table() -> dict[int, Any]:
    """Identity of the real thing -> substitute. The real ones live as long as the process."""
    table: dict[int, Any] = {}
    for real, members in (
        (real_time, _time_members()),
        (real_datetime, _datetime_members()),
        (real_random, _random_members()),
        (real_uuid, _uuid_members()),
        (secrets, {name: _forbidden(secrets, name) for name in secrets.__all__ if name != "compare_digest"}),
        (os, _os_members()),
        (platform, {name: _forbidden(platform, name) for name in _functions_of(platform)}),
        (threading, {"Thread": _class(threading.Thread, "threading.Thread()", _refuse_thread, {})}),
    ):
        module = ModuleType(real.__name__, real.__doc__)
        vars(module).update({**vars(real), **members})
        table[id(real)] = module
        for name, member in members.items():
            table[id(vars(real)[name])] = member
    return table


def _functions_of(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__:
            yield name


# --- making substitutes


def _replaced(real: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., Any]:
    """`inside` in a turn, the real function elsewhere."""

    @wraps(real)
    def substituted(*args: Any, **kwargs: Any) -> Any:
        return (real if in_turn() is None else inside)(*args, **kwargs)

    return substituted


def _forbidden(module: ModuleType, name: str) -> Any:
    """Fails in a turn, the real function (or class) elsewhere."""
    real = vars(module)[name]
    call = f"{module.__name__}.{name}()"

    def refuse(*args: Any, **kwargs: Any) -> Any:
        place = in_turn()
        assert place is not None  # noqa: S101  # `_replaced` looked
        raise foreign_call(call, place)

    if isinstance(real, type):
        return _class(real, call, refuse, {})
    return _replaced(real, refuse)


def _class(real: type, call: str, make: Callable[..., Any], members: dict[str, Any]) -> Any:
    """A class that is `real` in every respect, except that a turn calls `make` and sees other members.

    Instances are always of the real class; `isinstance`, `issubclass`, `match` and subclassing go by the real one.
    """

    class Meta(type(real)):  # type: ignore[misc]  # the real class's own metaclass
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is not made:
                return super().__call__(*args, **kwargs)
            return (real if in_turn() is None else make)(*args, **kwargs)

        def __getattribute__(cls, name: str) -> Any:
            if cls is not made:
                return super().__getattribute__(name)
            found = members.get(name, _HIDDEN)
            return getattr(real, name) if found is _HIDDEN else found

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real) if cls is made else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real) if cls is made else super().__subclasscheck__(subclass)

        def __eq__(cls, other: object) -> bool:
            return other is cls or (cls is made and other is real)

        def __hash__(cls) -> int:
            return hash(real) if cls is made else super().__hash__()

    made: Any = None
    made = Meta(real.__name__, (real,), {"__doc__": real.__doc__, "__module__": real.__module__})
    return made


# --- time


def _run_ms() -> int:
    place = in_turn()
    assert place is not None  # noqa: S101  # substitutes look first
    return place.port.now()


def _seconds() -> float:
    return _run_ms() / 1000


def _nanoseconds() -> int:
    return _run_ms() * _NS


def _time_members() -> dict[str, Any]:
    members: dict[str, Any] = {
        name: _forbidden(real_time, name) for name in _FORBIDDEN_TIME if hasattr(real_time, name)
    }
    for name in ("time", "monotonic", "perf_counter"):
        members[name] = _replaced(getattr(real_time, name), _seconds)
        members[f"{name}_ns"] = _replaced(getattr(real_time, f"{name}_ns"), _nanoseconds)

    def gmtime(seconds: float | None = None) -> real_time.struct_time:
        return real_time.gmtime(_seconds() if seconds is None else seconds)

    def ctime(seconds: float | None = None) -> str:
        return real_time.asctime(gmtime(seconds))

    def strftime(style: str, moment: Any = None) -> str:
        return real_time.strftime(style, gmtime() if moment is None else moment)

    members["gmtime"] = _replaced(real_time.gmtime, gmtime)
    members["localtime"] = _replaced(real_time.localtime, gmtime)
    members["ctime"] = _replaced(real_time.ctime, ctime)
    members["strftime"] = _replaced(real_time.strftime, strftime)
    return members


def _datetime_members() -> dict[str, Any]:
    utc = real_datetime.UTC

    def now(tz: real_datetime.tzinfo | None = None) -> real_datetime.datetime:
        moment = real_datetime.datetime.fromtimestamp(_seconds(), utc)
        return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)

    def today() -> real_datetime.date:
        return now().date()

    moment = real_datetime.datetime
    members = {
        "now": _replaced(moment.now, now),
        "utcnow": _replaced(moment.utcnow, now),  # pyright: ignore[reportDeprecated]
        "today": _replaced(moment.today, now),
    }
    return {
        "datetime": _class(moment, "datetime()", moment, members),
        "date": _class(
            real_datetime.date, "date()", real_datetime.date, {"today": _replaced(real_datetime.date.today, today)}
        ),
    }


# --- chance


def _random_members() -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in real_random.__all__:
        real = getattr(real_random, name)
        if not isinstance(real, type):
            members[name] = _replaced(real, _drawing(name))
    members["seed"] = _forbidden(real_random, "seed")
    members["SystemRandom"] = _forbidden(real_random, "SystemRandom")
    members["Random"] = _class(real_random.Random, "random.Random()", _make_random, {})
    return members


def _drawing(name: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        return getattr(timers.random(), name)(*args, **kwargs)

    return draw


def _make_random(seed: Any = None) -> real_random.Random:
    return real_random.Random(timers.random().getrandbits(128) if seed is None else seed)  # noqa: S311  # replayable by design


def _uuid_members() -> dict[str, Any]:
    members: dict[str, Any] = {
        name: _forbidden(real_uuid, name)
        for name in ("uuid1", "uuid6", "uuid7", "uuid8", "getnode")
        if hasattr(real_uuid, name)
    }
    members["uuid4"] = _replaced(real_uuid.uuid4, timers.uuid4)
    return members


# --- the machine


class _Environment:
    """`os.environ`, which a turn must not look at."""

    def __getattribute__(self, name: str) -> Any:
        return getattr(_environ(), name)

    def __getitem__(self, key: str) -> str:
        return str(_environ()[key])

    def __setitem__(self, key: str, value: str) -> None:
        _environ()[key] = value

    def __delitem__(self, key: str) -> None:
        del _environ()[key]

    def __contains__(self, key: object) -> bool:
        return key in _environ()

    def __iter__(self) -> Iterator[str]:
        return iter(_environ())

    def __len__(self) -> int:
        return len(_environ())


def _environ() -> Any:
    place = in_turn()
    if place is not None:
        raise foreign_call("os.environ", place)
    return os.environ


def _os_members() -> dict[str, Any]:
    members: dict[str, Any] = {name: _forbidden(os, name) for name in _FORBIDDEN_OS if hasattr(os, name)}
    members["environ"] = _Environment()
    return members


def _refuse_thread(*args: Any, **kwargs: Any) -> Any:
    place = in_turn()
    assert place is not None  # noqa: S101  # `_class` looked
    raise foreign_call("threading.Thread()", place)


# --- output


def view_print(*values: object, **options: Any) -> None:
    """`print`, silent while a run is being replayed."""
    place = in_turn()
    if place is None or not place.port.replaying:
        print(*values, **options)  # noqa: T201  # it is print
