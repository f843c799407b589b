"""What is printed stays in its cell: other people's text cannot write on the terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.cli import output
from tenuto.cli.output import ago, cut, duration, paint, plain, safe, shown, table, width_of

NASTY = [
    "\x1b[2J",  # clears the screen
    "\x1b]0;title\x07",
    "\x9b31m",  # the same in one character
    "a\rb",
    "a\nb",
    "a\tb",
    "\u202eevil",  # turns the reading direction
    "\u2028",
    "\x7f",
    "\ud800",
    "\x00",
]


@pytest.mark.parametrize("text", NASTY)
def test_nothing_that_moves_the_cursor_passes(text: str) -> None:
    assert safe(f"before {text} after").isprintable()
    assert "\\" in safe(text)


@given(st.text())
def test_every_text_becomes_one_visible_line(text: str) -> None:
    line = safe(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), min_size=1, max_size=5))
def test_a_table_has_one_line_for_each_row_and_stays_in_its_width(rows: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "60")
        lines = table(("ID", "WHAT"), rows)
    assert len(lines) == len(rows) + 1
    assert all(width_of(line) <= 60 for line in lines)
    assert all(line.isprintable() for line in lines)


def test_wide_characters_take_two_cells() -> None:
    assert width_of("注文") == 4
    assert cut("注文注文", 5) == "注文…"
    assert cut("short", 5) == "short"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0123, "12ms"), (1.5, "1.5s"), (2, "2s"), (90, "1m 30s"), (3600, "1h"), (90_000, "1d 1h")],
)
def test_durations_have_the_two_units_that_matter(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_times_are_before_or_after_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert ago(now - timedelta(minutes=5), now) == "5m ago"
    assert ago(now + timedelta(hours=2), now) == "in 2h"


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


def test_what_json_does_not_know_is_written_for_people() -> None:
    value = {
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        1: b"\x00\xff",
        "point": Point(1, float("nan")),
        "colour": Colour.RED,
        "error": ValueError("no"),
        "tags": frozenset({"a"}),
        "other": object,
    }
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == {
        "at": "2026-01-01T00:00:00Z",
        "1": {"$bytes": "AP8="},
        "point": {"x": 1, "y": {"$float": "nan"}},
        "colour": "red",
        "error": {
            "type": "ValueError",
            "code": None,
            "message": "no",
            "traceback": None,
            "notes": [],
            "cause": None,
        },
        "tags": ["a"],
        "other": "<class 'object'>",
    }
    assert shown("\x1b[31m") == '"\\u001b[31m"'


@pytest.mark.parametrize(
    ("terminal", "settings", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(
    terminal: bool, settings: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(output, "on_terminal", lambda: terminal)
    assert ("\x1b" in paint("failed", "failed")) is coloured


def test_nobody_looking_means_no_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("working", 100) as advance:
        advance()
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
