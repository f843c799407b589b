"""Stored values as JSON, without their classes."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec.values import dump, dump_error
from tenuto.codec.viewing import view, view_error
from tenuto.errors import DecodingError, JoinError, StepExhaustedError


@dataclass
class Order:
    id: int
    tags: list[str]


class Color(Enum):
    RED = 1


NAME = __name__


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        ("$text", "$text"),
        (2**53, 2**53),
        (2**53 + 1, {"$int": "9007199254740993"}),
        (-(2**80), {"$int": "-1208925819614629174706176"}),
        (1.5, 1.5),
        (-0.0, {"$float": "-0.0"}),
        (math.inf, {"$float": "inf"}),
        (math.nan, {"$float": "nan"}),
        (b"ab", {"$bytes": "YWI="}),
        ([1, [2]], [1, [2]]),
        ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        ({3}, {"$set": [3]}),
        (frozenset("a"), {"$frozenset": ["a"]}),
        ({"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"$a": 1}, {"$map": [["$a", 1]]}),
        ({1: "x", (2, 3): "y"}, {"$map": [[1, "x"], [{"$tuple": [2, 3]}, "y"]]}),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), {"$datetime": "2026-01-31T12:00:00Z"}),
        (datetime(2026, 1, 31, 12), {"$datetime": "2026-01-31T12:00:00"}),  # noqa: DTZ001  # naive on purpose
        (
            datetime(2026, 1, 31, 12, tzinfo=ZoneInfo("UTC")),
            {"$datetime": "2026-01-31T12:00:00", "zone": "UTC"},
        ),
        (date(2026, 1, 31), {"$date": "2026-01-31"}),
        (time(12, 30, fold=1), {"$time": "12:30:00", "fold": 1}),
        (timedelta(days=1, microseconds=5), {"$timedelta": 86400.000005}),
        (timedelta(seconds=-1), {"$timedelta": -1}),
        (Decimal("1.10"), {"$decimal": "1.10"}),
        (UUID(int=5), {"$uuid": "00000000-0000-0000-0000-000000000005"}),
        (Order(7, ["x"]), {"$object": f"{NAME}:Order", "fields": {"id": 7, "tags": ["x"]}}),
        (Color.RED, {"$enum": f"{NAME}:Color", "name": "RED"}),
    ],
)
def test_each_kind_of_value_has_its_form(value: Any, expected: Any) -> None:
    assert view(dump(value)) == expected
    json.dumps(view(dump(value)), allow_nan=False)


def test_an_object_is_shown_where_its_class_is_not_loaded() -> None:
    data = dump(Order(7, ["x"])).replace(f"{NAME}:Order".encode(), f"{NAME}:Other".encode())
    assert view(data) == {"$object": f"{NAME}:Other", "fields": {"id": 7, "tags": ["x"]}}


def test_an_integer_of_any_size_is_shown() -> None:
    """Python refuses to write more than 4,300 digits."""
    assert view(dump(10**5000)) == {"$int": hex(10**5000)}
    assert view(dump(10**4000)) == {"$int": "1" + "0" * 4000}


def test_an_error_has_its_code_text_notes_frames_and_causes() -> None:
    def fail() -> None:
        raise KeyError("missing")

    def give_up() -> None:
        try:
            fail()
        except KeyError as cause:
            failure = StepExhaustedError("charge", "a/charge", 2, "exhausted")
            failure.add_note("of order 42")
            raise failure from cause

    with pytest.raises(StepExhaustedError) as raised:
        give_up()
    found = view_error(raised.value)
    assert view(dump({"e": raised.value})) == {"e": {"$error": found}}
    cause = found.pop("cause")
    assert "test_viewing.py" in found.pop("traceback")
    assert found == {
        "type": "StepExhaustedError",
        "code": "TN115",
        "message": "step 'charge' at a/charge failed (exhausted) after 2 attempts",
        "notes": ["of order 42"],
    }
    assert "in fail" in cause.pop("traceback")
    assert cause == {"type": "KeyError", "code": None, "message": "'missing'", "notes": [], "cause": None}


def test_the_members_of_a_group_and_of_failed_branches_are_shown() -> None:
    group = view_error(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))
    assert [(member["type"], member["message"]) for member in group["members"]] == [
        ("ValueError", "a"),
        ("KeyError", "'b'"),
    ]
    failed = view_error(JoinError({"left": ValueError("a")}))
    assert [(member["name"], member["type"]) for member in failed["members"]] == [("left", "ValueError")]


@given(st.binary(max_size=200))
def test_any_bytes_give_a_view_or_a_documented_error(data: bytes) -> None:
    with suppress(DecodingError):
        json.dumps(view(data), allow_nan=False)


@given(st.binary(min_size=1, max_size=4), st.integers(0, 400))
def test_a_damaged_value_gives_a_view_or_a_documented_error(put: bytes, at: int) -> None:
    values = [Order(7, ["x"]), datetime(2026, 1, 1, tzinfo=UTC), {1: (2, {3})}, timedelta(1), Color.RED]
    data = dump([values, Decimal(1), UUID(int=1), 2**90]) + dump_error(ValueError("x"))
    damaged = data[: at % len(data)] + put + data[at % len(data) + len(put) :]
    with suppress(DecodingError):
        json.dumps(view(damaged), allow_nan=False)


def test_bytes_that_nest_too_deep_are_refused() -> None:
    with pytest.raises(DecodingError):
        view(b"\x81" * 5000 + b"\x01")
