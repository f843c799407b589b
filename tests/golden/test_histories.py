"""Histories that earlier states of the engine have stored replay with the present one, and it stores the same bytes.

`python scripts/record_histories.py --write` records those of new workflows; a file that is there is never edited (P9).
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import VERSION_KEY
from tenuto.model.registry import default
from tenuto.testing import Recorded, check_replay

ROOT = Path(__file__).parent.parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "record_histories.py"))
FOLDER: Path = SCRIPT["FOLDER"]
HISTORIES = SCRIPT["workflows"]().HISTORIES


def rows_of(recorded: Recorded) -> dict[bytes, bytes]:
    """Its rows but for the hash of its definition, which depends on the interpreter's syntax tree."""
    return {key: value for key, value in recorded.rows if key != VERSION_KEY}


@pytest.mark.parametrize(("name", "workflow"), [history[:2] for history in HISTORIES], ids=lambda item: str(item))
def test_a_golden_history_replays(name: str, workflow: Any) -> None:
    """P9."""
    known: Any = default.find(workflow, "workflow") if isinstance(workflow, str) else workflow
    check_replay(known, Recorded.read(FOLDER / f"{name}.json"))


@pytest.mark.parametrize("history", HISTORIES, ids=[history[0] for history in HISTORIES])
async def test_the_engine_stores_the_bytes_of_the_golden_history(history: Any) -> None:
    """P9: what changes here cannot be read by the release before, or reads otherwise; a rule has to say so."""
    assert rows_of(await SCRIPT["record"](*history)) == rows_of(Recorded.read(FOLDER / f"{history[0]}.json"))


@pytest.mark.parametrize("history", HISTORIES, ids=[history[0] for history in HISTORIES])
async def test_a_run_that_is_rebuilt_after_every_turn_stores_the_same(history: Any) -> None:
    """P7."""
    crashed = await SCRIPT["record"](*history, crash=True)
    assert rows_of(crashed).keys() == rows_of(Recorded.read(FOLDER / f"{history[0]}.json")).keys()


def test_every_file_belongs_to_a_workflow() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {history[0] for history in HISTORIES}
