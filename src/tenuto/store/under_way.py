"""How stores keep notes of steps under way: a row beside the heartbeats, with ids and times only."""

from __future__ import annotations

import json
from typing import Any

from tenuto.store.port import RunningStep

__all__ = ["details_of", "key_of", "prefix_of", "step_of"]


def prefix_of(run_id: str) -> str:
    """What the keys of a run's notes begin with. Keys of heartbeats begin with a run's id, which is never empty."""
    return f":running:{run_id}:"


def key_of(step: RunningStep) -> str:
    """The key of a note: one for each place of a run."""
    return f"{prefix_of(step.run_id)}{step.location}"


def details_of(step: RunningStep) -> str:
    """A note as it is kept."""
    return json.dumps(list(step))


def step_of(details: bytes) -> RunningStep | None:
    """What was noted; None for a row that is no note."""
    try:
        fields: Any = json.loads(details)
        return RunningStep(*fields)
    except (ValueError, TypeError):
        return None
