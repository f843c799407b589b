"""Where a run stands, as our own tools ask for it and Temporal's: its rows, the stack of its code, the names it takes.

The SDK's answers are about the adapter: one task of its loop that waits, and handlers without names.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from temporalio.api.sdk.v1 import WorkflowDefinition, WorkflowInteractionDefinition, WorkflowMetadata

from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import dump
from tenuto.kernel.batch import Batch
from tenuto.kernel.location import text
from tenuto.model.definitions import Workflow
from tenuto.temporal.runs.run import TemporalRun

__all__ = ["metadata_of", "rows_of", "stack_of"]

_OURS: Final = str(Path(__file__).parents[1])
_HOOK: Final = "hook:"  # with a secret in it


def stack_of(run: TemporalRun) -> str:
    """The stack of each task of the run's code, and the operations it waits for."""
    stacks = [f"{task.get_name()}:\n{''.join(_lines(task))}" for task in run.loop.alive.values() if not task.done()]
    pending = [text(node.location) for node in run.history.root.walk() if node.pending is not None]
    return "\n".join([*stacks, f"waits for: {', '.join(pending) or 'nothing'}"])


def _lines(task: Any) -> list[str]:
    frames = list(_frames(task.inner if task.inner is not None else task.get_coro()))
    theirs = [frame for frame in frames if not frame.f_code.co_filename.startswith(_OURS)]
    places = [
        traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        for frame in theirs or frames
    ]
    return traceback.format_list(places)


def _frames(awaited: Any) -> Iterator[FrameType]:
    """From a coroutine to what it awaits, and so on: the frame of each."""
    while awaited is not None:
        for kind, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(awaited, kind):
                frame = getattr(awaited, kind)
                if frame is not None:
                    yield frame
                awaited = getattr(awaited, inner)
                break
        else:
            return


def metadata_of(run: TemporalRun, workflow: Workflow[..., Any]) -> WorkflowMetadata:
    """The names of queries, and of the signals and updates that the run takes at this moment."""
    signals, updates = run.mailbox.awaited
    return WorkflowMetadata(
        definition=WorkflowDefinition(
            type=workflow.id,
            query_definitions=_named(sorted(workflow.queries)),
            signal_definitions=_named(name for name in signals if not name.startswith(_HOOK)),
            update_definitions=_named(updates),
        )
    )


def _named(names: Any) -> list[WorkflowInteractionDefinition]:
    return [WorkflowInteractionDefinition(name=name) for name in names]


def rows_of(run: TemporalRun, unread: Sequence[str], *, is_open: bool) -> bytes:
    """What our own store would hold of this run, what it waits for, and which signals nobody took."""
    nodes = run.nodes()
    batch = Batch(
        entries=tuple((node.location, node.entry) for node in nodes if node.entry is not None),
        metadata=tuple((node.location, node.metadata) for node in nodes if node.metadata is not None),
        state="running",
        version=run.rows.version,
        input=run.rows.input,
        counters=run.counters,
        published=run.published,
    )
    rows = [list(row) for row in sorted(RunEncoder().encode(batch).puts)]
    signals, updates = run.mailbox.awaited if is_open else ((), ())
    return dump([rows, list(signals), list(updates), list(unread)])
