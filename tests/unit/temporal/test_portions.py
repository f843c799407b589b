"""What a run hands to Temporal, in portions: how many at once, how much in one message, in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenuto.temporal.runs.portions import COMMAND_BYTES, MOST_BYTES, MOST_COMMANDS, MOST_OPEN, Kind, Portions


class Desk:
    """Takes what is handed over, and brings the next task when it is told to."""

    def __init__(self, *, may_wait: bool = True) -> None:
        self.task = 1
        self.begun: list[object] = []
        self.asked = 0  # how often the patch was asked for
        self.callbacks: list[Callable[[], None]] = []

        def ask() -> bool:
            self.asked += 1
            return may_wait

        self.portions = Portions(lambda: self.task, ask, self.callbacks.append)

    def hand(self, key: object, size: int = 0, kind: Kind = "other") -> None:
        self.portions.hand(kind, key, size, lambda: self.begun.append(key))

    def next_task(self) -> None:
        self.task += 1
        (go_on,) = self.callbacks
        self.callbacks.clear()
        go_on()


def test_what_fits_begins_at_once_and_asks_for_no_patch() -> None:
    desk = Desk()
    for number in range(MOST_COMMANDS):
        desk.hand(number)
    assert desk.begun == list(range(MOST_COMMANDS))
    assert (desk.asked, desk.callbacks, desk.portions.are_waiting) == (0, [], False)


def test_what_one_message_has_no_room_for_begins_in_the_next_task_in_its_order() -> None:
    desk = Desk()
    third = MOST_BYTES // 3
    for number in range(5):
        desk.hand(number, third - COMMAND_BYTES)
    assert desk.begun == [0, 1, 2]
    desk.next_task()
    assert desk.begun == [0, 1, 2, 3, 4]
    assert not desk.portions.are_waiting


def test_something_that_fills_a_message_alone_begins() -> None:
    desk = Desk()
    desk.hand("large", MOST_BYTES)
    desk.hand("small")
    assert desk.begun == ["large"]
    desk.next_task()
    assert desk.begun == ["large", "small"]


def test_a_task_begins_only_so_many() -> None:
    desk = Desk()
    for number in range(2 * MOST_COMMANDS + 1):
        desk.hand(number)
    assert len(desk.begun) == MOST_COMMANDS
    desk.next_task()
    assert len(desk.begun) == 2 * MOST_COMMANDS
    desk.next_task()
    assert desk.begun == list(range(2 * MOST_COMMANDS + 1))


def test_a_new_task_of_its_own_accord_has_room_again() -> None:
    desk = Desk()
    for number in range(MOST_COMMANDS):
        desk.hand(number)
    desk.task += 1
    desk.hand("more")
    assert desk.begun[-1] == "more"
    assert not desk.asked


@pytest.mark.parametrize("kind", ["activity", "child", "signal"])
def test_so_many_of_one_kind_are_open_and_others_begin_as_they_end(kind: Kind) -> None:
    desk = Desk()
    for number in range(MOST_OPEN + 2):
        if number % MOST_COMMANDS == 0:
            desk.task += 1
        desk.hand(number, kind=kind)
    assert len(desk.begun) == MOST_OPEN
    assert desk.callbacks == []  # no task would help
    desk.hand("another kind")
    assert desk.begun[-1] == "another kind"
    desk.task += 1
    desk.portions.ended(kind)
    assert desk.begun[-1] == MOST_OPEN
    desk.portions.ended(kind)
    assert desk.begun[-1] == MOST_OPEN + 1


def test_what_is_withdrawn_never_begins() -> None:
    desk = Desk()
    desk.hand("first", MOST_BYTES)
    desk.hand("second", MOST_BYTES)
    desk.hand("third", 1)
    assert desk.portions.withdraw("second")
    assert not desk.portions.withdraw("second")
    assert not desk.portions.withdraw("first")
    desk.next_task()
    assert desk.begun == ["first", "third"]


def test_the_result_of_a_local_activity_takes_room_of_its_task() -> None:
    desk = Desk()
    desk.hand("closure")
    desk.portions.spent(MOST_BYTES)
    desk.hand("next")
    assert desk.begun == ["closure"]
    desk.next_task()
    assert desk.begun == ["closure", "next"]


def test_a_history_without_the_patch_is_handed_over_as_it_was() -> None:
    """P9"""
    desk = Desk(may_wait=False)
    for number in range(3 * MOST_OPEN):
        desk.hand(number, MOST_BYTES, kind="activity")
    assert desk.begun == list(range(3 * MOST_OPEN))
    assert not desk.portions.are_waiting
