"""A run replayed from its rows, for those who only want to know. Nothing is executed and nothing is written.

Recorded steps give their recorded results; what would come next is asked for and not begun.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tenuto.codec.values import dump, load
from tenuto.host.definitions import Definitions
from tenuto.kernel.history import describe
from tenuto.kernel.records import Rows
from tenuto.kernel.turn import Run, Turn
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main
from tenuto.store.port import RunRecord

__all__ = ["Replayed", "latest", "replay"]


class Replayed(NamedTuple):
    """What came of a replay. `left_over`: places that are recorded, and that the code has not come to again."""

    turn: Turn
    left_over: tuple[tuple[str, str], ...]  # location, and what is recorded there


def replay(
    rows: Rows, record: RunRecord, workflow: Workflow[..., Any], definitions: Definitions, now: int | None = None
) -> Replayed:
    """What the code of this process makes of a run. `now`: by default the time of its last entry, so no timer fires."""
    parent = record.parent_id
    workflow = definitions.pinned(record.target, rows.version, workflow)
    run = Run.load_rows(
        rows,
        definitions.definition(workflow),
        lambda port: run_main(workflow, port, rows.input, parent, registry=definitions.registry),
        dump,
        load,
        definitions.handler,
    )
    turn = run.take_turn((), latest(rows) if now is None else max(now, rows.counters.started_at))
    due = tuple((node.text, describe(node.entry)) for node in run.history.due_below(run.history.root))
    run.close()
    return Replayed(turn, due)


def latest(rows: Rows) -> int:
    """When the last thing happened that is recorded."""
    return max((max(entry.at, entry.began) for _, entry in rows.history), default=rows.counters.started_at)
