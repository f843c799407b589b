"""The garbage collector is held back for moments only, and never beyond its worker."""

from __future__ import annotations

import gc

import pytest

from tenuto import Tenuto
from tenuto.host import worker
from tenuto.host.collector import CollectorHold


async def test_a_worker_that_stops_lets_the_collector_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer that would end the hold belongs to a loop that may be over first."""
    made: list[CollectorHold] = []

    def hold() -> CollectorHold:
        made.append(CollectorHold(seconds=3_600))
        return made[-1]

    monkeypatch.setattr(worker, "CollectorHold", hold)
    assert gc.isenabled()
    async with Tenuto("memory://"):
        made[0].begin()
        assert not gc.isenabled()
    assert gc.isenabled()
