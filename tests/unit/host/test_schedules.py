"""When schedules fire: cron lines, time zones, intervals, what is missed. No store, no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from tenuto.errors import ConfigError, InvalidNameError
from tenuto.host.schedules import CATCH_UP_LIMIT, Rule, ScheduleOptions, check_schedule, nominal_id
from tenuto.model.durations import moment, point

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NEVER = 2**60  # the loop has not looked before
BERLIN = ZoneInfo("Europe/Berlin")


def rule(cron: str | None = None, *, every: int | None = None, tz: str = "UTC", **options: Any) -> Rule:
    return Rule(cron, every, tz, options.get("start_at"), options.get("end_at"), options.get("anchor", 0))


def times(found: Rule, after: datetime, count: int) -> list[str]:
    """The next times, as clocks in the rule's zone show them."""
    at, shown = moment(after), []
    for _ in range(count):
        following = found.after(at)
        assert following is not None
        shown.append(point(following).astimezone(ZoneInfo(found.tz)).strftime("%m-%d %H:%M %z"))
        at = following
    return shown


def test_half_past_two_in_a_gap_fires_once_right_after_the_gap() -> None:
    """R053."""
    daily = rule("30 2 * * *", tz="Europe/Berlin")
    assert times(daily, datetime(2026, 3, 28, 12, tzinfo=BERLIN), 2) == ["03-29 03:00 +0200", "03-30 02:30 +0200"]


def test_half_past_two_that_comes_twice_fires_once() -> None:
    """R053."""
    daily = rule("30 2 * * *", tz="Europe/Berlin")
    assert times(daily, datetime(2026, 10, 24, 12, tzinfo=BERLIN), 2) == ["10-25 02:30 +0200", "10-26 02:30 +0100"]


def test_a_rule_armed_within_the_second_of_two_equal_hours_does_not_fire_for_the_first() -> None:
    """R053."""
    daily = rule("30 2 * * *", tz="Europe/Berlin")
    second_hour = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1)
    assert times(daily, second_hour, 1) == ["10-26 02:30 +0100"]


def test_a_rule_with_a_star_in_hour_or_minute_follows_real_time() -> None:
    quarters = rule("*/30 * * * *", tz="Europe/Berlin")
    assert times(quarters, datetime(2026, 10, 25, 2, 0, tzinfo=BERLIN), 4) == [
        "10-25 02:30 +0200",
        "10-25 02:00 +0100",
        "10-25 02:30 +0100",
        "10-25 03:00 +0100",
    ]
    hourly = rule("15 * * * *", tz="Europe/Berlin")
    assert times(hourly, datetime(2026, 3, 29, 1, 0, tzinfo=BERLIN), 2) == ["03-29 01:15 +0100", "03-29 03:15 +0200"]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 9 * * MON-FRI", ["06-01 09:00", "06-02 09:00"]),
        ("5,35 8-9 * * *", ["05-30 08:05", "05-30 08:35"]),
        ("0 0 1 JAN,JUL *", ["07-01 00:00", "01-01 00:00"]),
        ("0 0 13 * FRI", ["06-05 00:00", "06-12 00:00"]),  # both restricted: either suffices
        ("0 0 * * 7", ["05-31 00:00", "06-07 00:00"]),
        ("*/20 6 * * *", ["05-30 06:00", "05-30 06:20"]),
        ("@daily", ["05-30 00:00", "05-31 00:00"]),
        ("@hourly", ["05-29 13:00", "05-29 14:00"]),
        ("@monthly", ["06-01 00:00", "07-01 00:00"]),
        ("@yearly", ["01-01 00:00", "01-01 00:00"]),
        ("@weekly", ["05-31 00:00", "06-07 00:00"]),
    ],
)
def test_cron_lines_mean_what_people_expect(cron: str, expected: list[str]) -> None:
    shown = times(rule(cron), datetime(2026, 5, 29, 12, 7, tzinfo=UTC), 2)
    assert [text[:11] for text in shown] == expected


def test_an_interval_counts_from_its_beginning_else_from_when_it_was_stored() -> None:
    from_storing = rule(every=HOUR, anchor=1_000)
    assert [from_storing.after(at) for at in (1_000, 1_001 + HOUR, 1_000 + HOUR)] == [
        1_000 + HOUR,
        1_000 + 2 * HOUR,
        1_000 + 2 * HOUR,
    ]
    from_beginning = rule(every=HOUR, start_at=DAY, anchor=DAY)
    assert [from_beginning.after(at) for at in (0, DAY, DAY + 5 * HOUR + 1)] == [DAY, DAY + HOUR, DAY + 6 * HOUR]


@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "Europe/Berlin", "America/Sao_Paulo"])
@pytest.mark.parametrize(
    ("line", "minutes", "hours"),
    [
        ("30 * * * *", {30}, set(range(24))),
        ("* 2 * * *", set(range(60)), {2}),
        ("0 */2 * * *", {0}, set(range(0, 24, 2))),
        ("*/30 2 * * *", {0, 30}, {2}),
        ("*/7 1-2 * * *", set(range(0, 60, 7)), {1, 2}),
    ],
)
def test_a_rule_with_a_star_fires_whenever_the_local_clock_shows_its_time(
    zone: str, line: str, minutes: set[int], hours: set[int]
) -> None:
    """By whatever length the clock jumps: half an hour on Lord Howe Island. Compared with every minute of the days."""
    found, place = rule(line, tz=zone), ZoneInfo(zone)
    for day in (datetime(2027, 4, 4, tzinfo=UTC), datetime(2027, 10, 3, tzinfo=UTC), datetime(2027, 3, 28, tzinfo=UTC)):
        begin, end = moment(day - timedelta(days=1)), moment(day + timedelta(days=1))
        shown = [(at, point(at).astimezone(place)) for at in range(begin + MINUTE, end, MINUTE)]
        wanted = [at for at, local in shown if local.minute in minutes and local.hour in hours]
        at, fired = begin, list[int]()
        while (following := found.after(at)) is not None and following < end:
            fired.append(at := following)
        assert fired == wanted


def test_utc_needs_no_data_of_time_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr("tenuto.host.schedules.ZoneInfo", absent)
    assert rule("@daily").after(0) == DAY
    assert check_schedule("tick", "wf", b"", "default", options(every="1h"), 0).next_at == HOUR
    with pytest.raises(ConfigError, match="needs the package tzdata"):
        check_schedule("tick", "wf", b"", "default", options(every="1h", tz="Europe/Oslo"), 0)


@pytest.mark.parametrize("every", ["99999999d", timedelta(days=3_000_000)])
def test_an_interval_beyond_the_calendar_is_refused(every: Any) -> None:
    with pytest.raises(ConfigError, match="out of range"):
        check_schedule("tick", "wf", b"", "default", options(every=every), 0)


def test_the_latest_of_millions_of_missed_times_is_calculated_not_counted() -> None:
    """A year of milliseconds, also where the schedule has ended meanwhile."""
    assert rule(every=1, anchor=7).due(8, 365 * DAY, "one", NEVER) == [365 * DAY]
    assert rule(every=7, anchor=0, end_at=DAY).due(7, 365 * DAY, "one", NEVER) == [DAY - DAY % 7]


def test_a_loop_that_was_busy_with_others_is_not_late() -> None:
    """R051: what has come since its previous look is on time, however long that took."""
    hourly = rule(every=HOUR)
    assert hourly.due(HOUR, HOUR + 10 * MINUTE, "none", HOUR - 1) == [HOUR]
    assert hourly.due(HOUR, HOUR + 10 * MINUTE, "none", HOUR + 1) == []


def test_nothing_fires_before_the_beginning_or_after_the_end() -> None:
    start = moment(datetime(2026, 6, 1, tzinfo=UTC))
    bounded = rule("@daily", start_at=start, end_at=start + DAY)
    assert bounded.after(0) == start
    assert bounded.after(start) == start + DAY
    assert bounded.after(start + DAY) is None


@pytest.mark.parametrize(
    ("late", "catch_up", "count"), [(59, "none", 1), (61, "none", 0), (61, "one", 1), (61, "all", 1)]
)
def test_a_time_is_missed_when_it_is_more_than_a_minute_old(late: int, catch_up: Any, count: int) -> None:
    hourly = rule(every=HOUR)
    assert len(hourly.due(HOUR, HOUR + late * 1000, catch_up, NEVER)) == count


def test_of_missed_times_none_the_latest_or_all_are_made_up_for() -> None:
    """R051."""
    hourly = rule(every=HOUR)
    now = 3 * HOUR + HOUR // 2
    assert hourly.due(HOUR, now, "none", NEVER) == []
    assert hourly.due(HOUR, now, "one", NEVER) == [3 * HOUR]
    assert hourly.due(HOUR, now, "all", NEVER) == [HOUR, 2 * HOUR, 3 * HOUR]


def test_at_most_a_thousand_missed_times_are_made_up_for_the_oldest_first() -> None:
    minutely = rule("* * * * *")
    missed = minutely.due(MINUTE, 365 * DAY + MINUTE // 2, "all", NEVER)
    assert missed[:CATCH_UP_LIMIT] == [n * MINUTE for n in range(1, CATCH_UP_LIMIT + 1)]
    assert missed[CATCH_UP_LIMIT:] == [365 * DAY]  # on time: not missed


@pytest.mark.parametrize("cron", ["* * * * *", "0 0 29 2 *", "30 2 * * *"])
def test_the_latest_missed_time_is_found_however_long_ago_it_was(cron: str) -> None:
    found = rule(cron)
    first = found.after(0)
    assert first is not None
    now = first + 1_000 * DAY
    (latest,) = found.due(first, now, "one", NEVER)
    following = found.after(latest)
    assert latest <= now < (following or now + 1)


def test_runs_are_named_by_their_time_in_utc() -> None:
    at = moment(datetime(2026, 6, 1, 2, 30, tzinfo=BERLIN))
    assert nominal_id("nightly", at) == "nightly@2026-06-01T00:30:00Z"
    assert nominal_id("fast", at + 250) == "fast@2026-06-01T00:30:00.250Z"


def options(**given: Any) -> ScheduleOptions:
    return {  # type: ignore[return-value,typeddict-item]
        "cron": None,
        "every": None,
        "tz": "UTC",
        "overlap": "skip",
        "catch_up": "one",
        "start_at": None,
        "end_at": None,
        **given,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one of cron= and every="),
        ({"cron": "@daily", "every": "1h"}, "exactly one of cron= and every="),
        ({"cron": "0 0 * *"}, "five fields"),
        ({"cron": "0 0 0 * * *"}, "five fields"),
        ({"cron": "@reboot"}, "five fields"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "0 0 31 FEB *"}, "bad day-of-month"),
        ({"every": 0}, "no interval"),
        ({"every": "1h", "tz": "Middle/Earth"}, "time zone 'Middle/Earth'"),
        ({"every": "1h", "tz": "../etc/passwd"}, "no time zone"),
        ({"every": "1h", "overlap": "pile"}, "overlap is one of skip, queue_one, allow, cancel"),
        ({"every": "1h", "catch_up": "some"}, "catch_up is one of none, one, all"),
        (
            {"every": "1h", "start_at": datetime(2026, 2, 1, tzinfo=UTC), "end_at": datetime(2026, 1, 1, tzinfo=UTC)},
            "ends before it begins",
        ),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_the_reason(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_schedule("tick", "wf", b"", "default", options(**given), 0)
    assert said in str(refused.value)


def test_a_name_must_leave_room_for_the_time() -> None:
    with pytest.raises(InvalidNameError):
        check_schedule("n" * 250, "wf", b"", "default", options(every="1h"), 0)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        check_schedule("tick", "wf", b"", "default", options(every="1h", start_at=datetime(2026, 1, 1)), 0)  # noqa: DTZ001


def test_an_interval_may_be_a_timedelta() -> None:
    made = check_schedule("tick", "wf", b"", "default", options(every=timedelta(minutes=5)), 1_000)
    assert (made.every_ms, made.next_at, made.anchor) == (300_000, 301_000, 1_000)
