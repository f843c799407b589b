"""The process of one contestant: takes a line of JSON, does that workload, answers with a line of JSON.

python -m workloads.child CONTESTANT
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from workloads.contestant import Contestant

__all__ = ["contestant"]


def contestant(name: str) -> Contestant:
    """A contestant by its name."""
    if name.startswith("tenuto"):
        from workloads.tenuto_contestant import TenutoContestant

        return TenutoContestant()
    from workloads.dbos_contestant import DbosContestant

    return DbosContestant(0.001 if name.endswith("fast") else None)


async def serve(name: str) -> None:
    """Answers until its input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    engine = contestant(name)
    _answer(answers, "ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        call: dict[str, Any] = json.loads(line)
        result = await getattr(engine, call["do"])(*call["with"])
        _answer(answers, result)


def _answer(answers: Any, result: object) -> None:
    answers.write(json.dumps(result) + "\n")
    answers.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
