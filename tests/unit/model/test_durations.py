"""Durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.model.durations import fractional_milliseconds, milliseconds, moment, point


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (0, 0),
        (5, 5_000),
        (0.1, 100),
        (1.0005, 1_001),
        (0.0001, 1),
        (-3, 0),
        (-0.5, 0),
        (timedelta(hours=1, microseconds=1), 3_600_001),
        (timedelta(seconds=-1), 0),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("1 day", 86_400_000),
        ("2 days, 3 hours and 4 minutes", 183_840_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        (" 10 S ", 10_000),
        ("-1h", 0),
        ("0s", 0),
        ("0.1ms", 1),
    ],
)
def test_a_duration_is_whole_milliseconds_rounded_up(written: Any, ms: int) -> None:
    assert milliseconds(written) == ms


@pytest.mark.parametrize(
    "written",
    ["", " ", "1", "h", "1 fortnight", "1h30", "one hour", "--1h", "-", "1h-30m", float("nan"), float("inf"), 1e300],
)
def test_what_is_no_duration_is_a_value_error(written: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # any text of it
        milliseconds(written)


@pytest.mark.parametrize("written", [None, True, b"1h", [1]])
def test_another_type_is_a_type_error(written: Any) -> None:
    with pytest.raises(TypeError):
        milliseconds(written)


def test_negative_infinity_counts_as_nothing() -> None:
    assert milliseconds(float("-inf")) == 0


def test_a_backoff_keeps_its_fraction() -> None:
    assert fractional_milliseconds("0.5ms") == 0.5


@given(st.integers(0, 10**12))
def test_the_spellings_of_one_duration_agree(ms: int) -> None:
    assert milliseconds(timedelta(milliseconds=ms)) == milliseconds(f"{ms}ms") == ms


def test_a_moment_needs_its_offset() -> None:
    with pytest.raises(ValueError, match="time zone"):
        moment(datetime(2026, 1, 1))  # noqa: DTZ001  # the point
    with pytest.raises(TypeError):
        moment(5)  # type: ignore[arg-type]


def test_a_moment_is_the_same_in_every_zone() -> None:
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert moment(there) == moment(datetime(2026, 1, 1, tzinfo=UTC))
    assert point(moment(there)) == there
