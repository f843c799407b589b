"""How suspects are put together: pure, and the same in every store."""

from __future__ import annotations

import pytest

from tenuto.store.quarantine import Suspect, largest_group, quarantine_ms, strikes_after, together


@pytest.mark.parametrize(("reclaims", "at_once"), [(2, 25), (3, 6), (4, 1), (5, 1), (500, 1)])
def test_groups_are_a_quarter_of_those_before(reclaims: int, at_once: int) -> None:
    assert largest_group(100, reclaims) == at_once


def suspects(*reclaims: int) -> list[Suspect]:
    return [Suspect(f"r{n}", count, 10, is_run=True) for n, count in enumerate(reclaims)]


def ids(found: list[Suspect]) -> str:
    return " ".join(one.id for one in found)


def test_the_first_says_how_large_the_group_is_and_none_in_it_was_lost_more_often() -> None:
    assert ids(together(suspects(3, 2, 4, 3, 3), 32, 32)) == "r0 r1"
    assert ids(together(suspects(4, 2, 2), 100, 100)) == "r0"
    assert ids(together(suspects(2, 3, 2, 2), 100, 2)) == "r0 r2"
    assert together([], 100, 100) == []


def test_strikes_count_from_the_last_commit() -> None:
    assert strikes_after(0, 0, alone=True) == 1
    assert strikes_after(2, 0, alone=True) == 1
    assert strikes_after(2, 4, alone=True) == 3
    assert strikes_after(2, 4, alone=False) == 2


def test_a_suspect_is_trusted_when_it_has_lived_twice_as_long_and_five_seconds_at_least() -> None:
    assert quarantine_ms(100) == 5_000
    assert quarantine_ms(20_000) == 40_000
