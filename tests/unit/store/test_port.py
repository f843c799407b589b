"""What the store's port says of a turn's commit."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch
from tenuto.store.port import Lease, TurnCommit, only_rows

ROWS = EncodedBatch((), (), ((b"key", b"value"),))
USUAL = TurnCommit.of_rows(Lease("r", 1), ROWS, 7, 3)


def test_the_usual_commit_is_the_one_that_names_its_fields() -> None:
    assert TurnCommit(Lease("r", 1), "running", ROWS, alarm=7, seen=3) == USUAL
    assert TurnCommit.of_rows(Lease("r", 1), ROWS, None, 3, (1, 2), "hash") == TurnCommit(
        Lease("r", 1), "running", ROWS, seen=3, mail_done=(1, 2), definition="hash"
    )
    assert only_rows(USUAL)


MORE: dict[str, Any] = {
    "status": "suspended",
    "rows": EncodedBatch((), (b"key",), ((b"key", b"value"),)),
    "runs": ("a run",),
    "tasks": ("a task",),
    "cancelled_tasks": ("a task",),
    "outgoing": ("mail",),
    "followed": (("r", "place"),),
    "closed_hooks": ("a hash",),
    "answers": (("u", b""),),
    "mail_done": (1,),
    "timers": ("a timer",),
    "stopped_timers": ("place",),
    "definition": "hash",
    "continued": True,
    "new": "a run",
}


@pytest.mark.parametrize("field", MORE)
def test_a_commit_with_anything_for_others_is_more_than_rows(field: str) -> None:
    assert not only_rows(USUAL._replace(**{field: MORE[field]}))


def test_a_commit_without_rows_to_put_is_not_one_of_rows() -> None:
    assert not only_rows(USUAL._replace(rows=EncodedBatch((), (), ())))
    assert not only_rows(USUAL._replace(rows=EncodedBatch(((b"a", b"b"),), (), ROWS.puts)))
