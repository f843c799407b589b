"""Records the golden histories: `python scripts/record_histories.py [--write]`.

Only histories without a file are written: one that is there is what an earlier state of the engine has stored, and has
to replay for ever.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tenuto.codec import exceptions
from tenuto.errors import RunCancelledError, RunFailedError
from tenuto.testing import Engine, Recorded

FOLDER = Path(__file__).parent.parent / "tests" / "golden" / "histories"


def workflows() -> ModuleType:
    """The module of the recorded workflows, loaded once under a name of its own."""
    name = "tenuto_golden_workflows"
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(FOLDER / "workflows.py")
        exec(compile(Path(module.__file__).read_text("utf-8"), module.__file__, "exec"), module.__dict__)  # noqa: S102
    return sys.modules[name]


async def record(name: str, workflow: Any, args: tuple[Any, ...], drive: Any, *, crash: bool = False) -> Recorded:
    """What the engine stores of a run today."""
    workflows().attempts.clear()
    known, exceptions.traceback_text = exceptions.traceback_text, _no_traceback
    engine = Engine(crash_everywhere=crash)
    try:
        run = await engine.start(workflow, *args, id=name)
        await drive(engine, run)
        with suppress(RunFailedError, RunCancelledError):  # some are made to end so; their rows say how
            await run.result()
        return await run.record()
    finally:
        engine.close()
        exceptions.traceback_text = known


def _no_traceback(error: BaseException) -> None:
    """Tracebacks name files and lines of the engine, which are nobody's promise."""


async def main() -> None:
    for name, workflow, args, drive in workflows().HISTORIES:
        path = FOLDER / f"{name}.json"
        found = await record(name, workflow, args, drive)
        if "--write" in sys.argv and not path.exists():
            found.save(path)
        print(name, len(found.rows), "rows", "" if path.exists() else "(not kept)")


if __name__ == "__main__":
    asyncio.run(main())
