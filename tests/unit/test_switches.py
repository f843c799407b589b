"""Short cuts are left out by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tenuto.errors import ConfigError
from tenuto.store.memory import MemoryStore
from tenuto.store.urls import store_of
from tenuto.system.switches import Switches, switches


@pytest.mark.parametrize("name", [field.name for field in fields(Switches)])
def test_a_short_cut_is_left_out_by_its_name(name: str) -> None:
    assert switches({"TENUTO_SLOW": name}) == Switches(**{name: True})


def test_several_are_separated_by_commas_and_all_is_all() -> None:
    assert switches({"TENUTO_SLOW": "commits, codec"}) == Switches(commits=True, codec=True)
    assert switches({"TENUTO_SLOW": "all"}) == Switches(commits=True, wire=True, replay=True, codec=True)
    assert switches({}) == switches({"TENUTO_SLOW": ""}) == Switches()


def test_a_name_that_no_short_cut_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'speed'.*commits"):
        switches({"TENUTO_SLOW": "speed"})


def test_a_store_of_which_every_commit_is_full_is_used_as_the_store_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENUTO_SLOW", "")
    assert isinstance(store_of("memory://"), MemoryStore)
    monkeypatch.setenv("TENUTO_SLOW", "commits")
    slow = store_of("memory://")
    assert not isinstance(slow, MemoryStore)
    assert slow.commits_at_once == MemoryStore(lambda: 0).commits_at_once
