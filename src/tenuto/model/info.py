"""What a run knows about itself."""

from __future__ import annotations

from tenuto.model.durations import point
from tenuto.model.place import reading
from tenuto.model.port import RunInfo

__all__ = ["RunInfo", "run_info"]


def run_info() -> RunInfo:
    """This run's id, workflow, number in its chain, start and parent.

    `replaying` is for logs and metrics only: a decision that depends on it is not the same on replay.
    """
    place = reading("run_info()")
    port = place.port
    return RunInfo(
        id=port.run_id,
        workflow=place.run.workflow_id,
        run_no=port.generation + 1,
        started_at=point(port.started_at),
        parent_id=place.run.parent_id,
        replaying=port.replaying,
    )
