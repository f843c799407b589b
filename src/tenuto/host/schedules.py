"""When schedules fire, and what firing means. Pure: times in, times out, all in milliseconds since 1970 UTC.

Rules:

1. A rule is a cron line in a time zone, or an interval. Fixed local times that a change of clocks leaves out fire at
   the first instant after the gap, those that come twice fire once; rules with `*` in hour or minute follow real time.
2. A time is on time if it is the latest that has come, and either at most `ON_TIME_MS` old or not older than the
   loop's previous look: a loop that was busy with other schedules is not an outage. Every other one was missed, and
   `catch_up` says what becomes of it.
3. Overlap is looked at once per firing: whether the run that the schedule started last is still open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import Final, TypedDict, get_args
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tenuto.errors import ConfigError
from tenuto.kernel.location import check_name
from tenuto.model.durations import Duration, milliseconds, moment, point
from tenuto.store.clock import LATEST
from tenuto.store.housekeeping import CatchUp, DueSchedule, Firing, Overlap, ScheduleRecord
from tenuto.store.port import NewRun, Outgoing

__all__ = [
    "ON_TIME_MS",
    "Rule",
    "ScheduleOptions",
    "ScheduleSummary",
    "check_schedule",
    "firing_of",
    "nominal_id",
    "summary_of",
]

ON_TIME_MS: Final = 60_000  # a lost worker's place is taken well before that
CATCH_UP_LIMIT: Final = 1_000
_FIRST_LOOK_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class ScheduleOptions(TypedDict):
    """What `app.schedule` is told: exactly one of `cron` and `every`."""

    cron: str | None
    every: Duration | None
    tz: str
    overlap: Overlap
    catch_up: CatchUp
    start_at: datetime | None
    end_at: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleSummary:
    """One line of a list of schedules."""

    name: str
    workflow: str  # the definition's id
    rule: str  # the cron line, or "every 90s"
    tz: str
    overlap: Overlap
    catch_up: CatchUp
    paused: bool
    next_at: datetime | None  # None: no time is left
    last_id: str | None  # the run it started last
    start_at: datetime | None
    end_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rule:
    """The times of a schedule."""

    cron: str | None
    every_ms: int | None
    tz: str
    start_at: int | None
    end_at: int | None
    anchor: int

    @classmethod
    def of(cls, record: ScheduleRecord) -> Rule:
        return cls(record.cron, record.every_ms, record.tz, record.start_at, record.end_at, record.anchor)

    def after(self, at: int) -> int | None:
        """The first time later than `at`; None: there is none."""
        return next(self._times(at), None)

    def _times(self, at: int) -> Iterator[int]:
        if self.start_at is not None:
            at = max(at, self.start_at - 1)
        end = LATEST if self.end_at is None else min(self.end_at, LATEST)
        for time in self._by_interval(at, self.every_ms) if self.every_ms is not None else self._by_cron(at):
            if time > end:
                return
            yield time

    def _by_interval(self, at: int, every_ms: int) -> Iterator[int]:
        first = 1 if self.start_at is None else 0  # without a beginning, the first is one interval after the storing
        number = max(first, (at - self.anchor) // every_ms + 1)
        while True:
            yield self.anchor + number * every_ms
            number += 1

    def _by_cron(self, at: int) -> Iterator[int]:
        line = _ALIASES.get(self.cron or "", self.cron or "")
        minute, hour, *_ = line.split(" ")
        zone = zone_of(self.tz)
        try:
            if minute.startswith("*") or hour.startswith("*"):
                yield from _real_times(line, at, zone)
                return
            for time in CronSim(line, point(at).astimezone(zone)):
                found = moment(time)
                # Begun in the second of two equal hours, the first one comes again: it is over.
                if found > at:
                    yield found
        except OverflowError:
            return  # beyond the year 9999

    def due(self, first: int, now: int, catch_up: CatchUp, looked_at: int) -> list[int]:
        """Return the times from `first` (one of them) until now that are to be started, oldest first."""
        latest = self._latest(first, now)
        on_time = latest >= min(now - ON_TIME_MS, looked_at)
        match catch_up:
            case "none":
                return [latest] if on_time else []
            case "one":
                return [latest]
            case "all":
                times = list(islice(self._until(first - 1, now), CATCH_UP_LIMIT))
                return times if latest in times or not on_time else [*times, latest]

    def _until(self, at: int, now: int) -> Iterator[int]:
        for time in self._times(at):
            if time > now:
                return
            yield time

    def _latest(self, first: int, now: int) -> int:
        """The latest time until now: looked for in the last hour, then further and further back, not from the start."""
        if self.every_ms is not None:
            end = now if self.end_at is None else min(now, self.end_at)
            return max(first, end - (end - self.anchor) % self.every_ms)
        back = _FIRST_LOOK_MS
        while now - back > first:
            *_, latest = (first, *self._until(now - back, now))
            if latest > first:
                return latest
            back *= 2
        *_, latest = (first, *self._until(first, now))
        return latest


def zone_of(name: str) -> tzinfo:
    """The zone of a name. UTC needs no data, which small images lack."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _real_times(line: str, at: int, zone: tzinfo) -> Iterator[int]:
    """The times later than `at` whose local fields match.

    Looked for in one stretch of equal offset after the other: within a stretch local time is real time, by whatever
    length the clock jumps between two of them.
    """
    begin = at
    while True:
        change = None
        for time in CronSim(line, point(at).astimezone(timezone(_offset(begin, zone)))):
            found = moment(time)
            change = _first_change(begin, found, zone)
            if change is not None:
                break
            yield found
            begin = at = found
        if change is None:
            return
        begin, at = change, change - 1000  # the first moment of the next stretch may be one of its times


def _first_change(begin: int, end: int, zone: tzinfo) -> int | None:
    """The first moment after `begin` and until `end` that has another offset; None: there is none."""
    offset = _offset(begin, zone)
    while begin < end:
        reached = min(begin + _DAY_MS, end)
        if _offset(reached, zone) != offset:
            moments = range(begin + 1, reached + 1)
            return moments[bisect_left(moments, True, key=lambda at: _offset(at, zone) != offset)]
        begin = reached
    return None


def _offset(at: int, zone: tzinfo) -> timedelta:
    return point(at).astimezone(zone).utcoffset() or timedelta()


def nominal_id(name: str, time: int) -> str:
    """The id of the run that a schedule starts for a time."""
    written = point(time).astimezone(UTC)
    seconds = written.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{name}@{seconds}.{time % 1000:03}Z" if time % 1000 else f"{name}@{seconds}Z"


def check_schedule(
    name: str, target: str, call: bytes, queue: str, options: ScheduleOptions, now: int
) -> ScheduleRecord:
    """A schedule as it is stored, armed from now; `ConfigError` for one that makes no sense."""
    check_name(nominal_id(check_name(name), 1))  # its runs have longer ids
    cron, every = options["cron"], options["every"]
    if (cron is None) == (every is None):
        raise ConfigError(f"schedule {name!r} needs exactly one of cron= and every=")
    _check_choice(name, "overlap", options["overlap"], get_args(Overlap))
    _check_choice(name, "catch_up", options["catch_up"], get_args(CatchUp))
    every_ms = None if every is None else milliseconds(every)
    if every_ms == 0:
        raise ConfigError(f"schedule {name!r}: every={every!r} is no interval")
    start_at = None if options["start_at"] is None else moment(options["start_at"])
    end_at = None if options["end_at"] is None else moment(options["end_at"])
    if start_at is not None and end_at is not None and end_at < start_at:
        raise ConfigError(f"schedule {name!r} ends before it begins")
    _check_zone(name, options["tz"])
    if cron is not None:
        cron = _check_cron(name, cron)
    rule = Rule(cron, every_ms, options["tz"], start_at, end_at, now if start_at is None else start_at)
    next_at = rule.after(now)
    if next_at is None and end_at is None:
        missing = f"{cron!r} has no time within fifty years" if cron is not None else f"every={every!r} is out of range"
        raise ConfigError(f"schedule {name!r}: {missing}")
    return ScheduleRecord(
        name,
        target,
        call,
        queue,
        cron,
        every_ms,
        rule.tz,
        options["overlap"],
        options["catch_up"],
        start_at,
        end_at,
        rule.anchor,
        next_at,
    )


def _check_choice(name: str, option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"schedule {name!r}: {option} is one of {', '.join(known)}, not {value!r}")


def _check_zone(name: str, tz: str) -> None:
    try:
        zone_of(tz)
    except (ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ConfigError(f"schedule {name!r}: {tz!r} is no time zone") from error
    except KeyError as error:
        raise ConfigError(
            f"schedule {name!r}: there is no time zone {tz!r} on this machine; write for example Europe/Oslo"
            " (a system without zones needs the package tzdata)"
        ) from error


def _check_cron(name: str, cron: str) -> str:
    line = " ".join(cron.split())
    fields = _ALIASES.get(line, line).split(" ")
    if len(fields) != 5:
        raise ConfigError(
            f"schedule {name!r}: {cron!r} is no cron line: five fields (minute, hour, day, month, weekday),"
            f" or one of {', '.join(_ALIASES)}"
        )
    try:
        CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ConfigError(f"schedule {name!r}: {cron!r}: {str(error).lower()}") from error
    return line


def firing_of(
    due: DueSchedule, now: int, looked_at: int, start: Callable[[str], NewRun], cancel: Callable[[str], Outgoing]
) -> Firing:
    """Decide what becomes of a schedule. `start`: the run of an id; `cancel`: the mail that ends one.

    `looked_at`: when the loop looked before; the present moment, if it did not.
    """
    record = due.record
    times: list[int] = []
    next_at, waiting_at = record.next_at, record.waiting_at
    if next_at is not None and next_at <= now:
        rule = Rule.of(record)
        times = rule.due(next_at, now, record.catch_up, looked_at)
        next_at = rule.after(now)
    outgoing: tuple[Outgoing, ...] = ()
    if due.last_open and times:
        times, waiting_at, cancelled = _overlapping(record, times)
        outgoing = (cancel(record.last_id),) if cancelled and record.last_id is not None else ()
    elif not due.last_open and waiting_at is not None:
        # The run that waited begins, and is the open one for what has become due by now.
        times, waiting_at = [waiting_at], times[-1] if times else None
    runs = tuple(start(nominal_id(record.name, time)) for time in times)
    return Firing(record.name, record.revision, next_at, waiting_at, runs, outgoing)


def _overlapping(record: ScheduleRecord, times: list[int]) -> tuple[list[int], int | None, bool]:
    """What is started all the same, what waits, and whether the open run is cancelled."""
    match record.overlap:
        case "skip":
            return [], record.waiting_at, False
        case "queue_one":
            return [], record.waiting_at if record.waiting_at is not None else times[-1], False
        case "allow":
            return times, record.waiting_at, False
        case "cancel":
            return times, record.waiting_at, True


def summary_of(record: ScheduleRecord) -> ScheduleSummary:
    """What a list says of a schedule."""
    return ScheduleSummary(
        record.name,
        record.target,
        record.cron if record.cron is not None else f"every {(record.every_ms or 0) / 1000:g}s",
        record.tz,
        record.overlap,
        record.catch_up,
        record.paused,
        None if record.next_at is None else point(record.next_at),
        record.last_id,
        None if record.start_at is None else point(record.start_at),
        None if record.end_at is None else point(record.end_at),
    )
