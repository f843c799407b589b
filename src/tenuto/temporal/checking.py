"""Before a deploy: which open runs of a cluster would not fit the code of this process. Reads only.

The cluster's histories are replayed by the SDK, with the workflow that our workers run. No worker is needed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from temporalio.worker import Replayer

from tenuto.errors import DefinitionNotFoundError, NondeterminismError
from tenuto.host.checking import Verdict
from tenuto.store.port import RunFilter
from tenuto.temporal.connection import Connection
from tenuto.temporal.looking import Found, Looking
from tenuto.temporal.settings import Site
from tenuto.temporal.workflows import AtSite, TenutoWorkflow

__all__ = ["check_runs", "open_runs"]

_ALL: Final = 10_000_000
_MESSAGE: Final = re.compile(r'message: "((?:[^"\\]|\\.)*)"')  # in what the SDK says of a failed replay
_CODE: Final = re.compile(r"\bTN\d{3}\b")
_NEXT: Final = "next      keep the order of steps, timers and children, or guard the change by patched(...)"


async def open_runs(looking: Looking, workflows: Sequence[str] | None = None) -> list[Found]:
    """The app's open runs (of these workflows), oldest first."""
    found = [item async for item in looking.ours(RunFilter(status="open", limit=_ALL), decide=False)]
    fitting = [item for item in found if workflows is None or item.summary.workflow in workflows]
    return sorted(fitting, key=lambda item: (item.summary.created_at, item.summary.id))


async def check_runs(connection: Connection, looking: Looking, runs: Sequence[Found]) -> AsyncIterator[Verdict]:
    """One verdict after another."""
    site = Site(connection.address.task_queue)
    replayer = Replayer(workflows=[TenutoWorkflow], interceptors=[AtSite(site)], namespace=connection.address.namespace)
    try:
        for found in runs:
            yield await _check(connection, looking, replayer, found)
    finally:
        site.close()


async def _check(connection: Connection, looking: Looking, replayer: Replayer, found: Found) -> Verdict:
    run = found.summary
    try:
        await looking.definition(run.id)
    except DefinitionNotFoundError:
        return Verdict(run.id, run.workflow, run.status, "unknown", message="its workflow is not loaded here")
    async with connection.asking(run.id):
        history = await connection.client.get_workflow_handle(run.id, run_id=found.execution).fetch_history()
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is None:
        return Verdict(run.id, run.workflow, run.status, "fits")
    said = str(result.replay_failure)
    inner = _MESSAGE.search(said)
    what = said if inner is None else inner[1]
    code = _CODE.search(what)
    return Verdict(
        run.id,
        run.workflow,
        run.status,
        "diverges",
        code=NondeterminismError.code if code is None else code[0],
        message=f"{what}\n  {_NEXT}",
    )
