"""Recorded runs: kept in a file, and held against the present code."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenuto.codec.rows import decode_rows
from tenuto.codec.values import dump, load
from tenuto.kernel.operations import Parked
from tenuto.kernel.turn import Definition, Run
from tenuto.model.definitions import Workflow
from tenuto.model.main import definition_of, run_main

__all__ = ["Recorded", "check_replay"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run's rows, as they were stored."""

    id: str
    target: str
    rows: tuple[tuple[bytes, bytes], ...]

    def save(self, path: str | Path) -> None:
        """Writes it to a file, one row per line so that changes can be read."""
        rows = [[key.hex(), base64.b64encode(value).decode()] for key, value in self.rows]
        document = {"id": self.id, "target": self.target, "rows": rows}
        Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Recorded:
        """What `save` wrote."""
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = tuple((bytes.fromhex(key), base64.b64decode(value)) for key, value in document["rows"])
        return cls(document["id"], document["target"], rows)


def check_replay(workflow: Workflow[..., Any], recorded: Recorded) -> None:
    """Replays a recorded run with the present code; raises what would park it: how the code diverges, or what is gone.

        check_replay(checkout, Recorded.read("tests/histories/checkout-1.json"))

    Nothing is executed: recorded steps give their recorded results, and what would come next is not begun.
    """
    rows, _ = decode_rows(recorded.id, recorded.rows)
    digest, names = definition_of(workflow)
    ended = rows.state in ("completed", "failed", "cancelled")
    open_again = rows._replace(state="running", output=None, error=None) if ended else rows
    run = Run.load_rows(
        open_again, Definition(digest, names), lambda port: run_main(workflow, port, rows.input, None), dump, load
    )
    latest = max((entry.at for _, entry in rows.history), default=rows.counters.started_at)
    turn = run.take_turn((), latest)
    run.close()
    if isinstance(turn.outcome, Parked):
        raise turn.outcome.error
    if ended and turn.outcome is None:
        raise AssertionError(f"run {recorded.id} was {rows.state}; replayed, it goes on")
