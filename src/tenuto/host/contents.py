"""The rows and mail of runs just claimed, read in one look and kept apart.

Rules:

1. What is read of several runs is split by run before anything of it is decoded, decrypted or looked up: what cannot be
   read is raised when its own run is taken up, and parks that run only.
2. Where the look itself fails, and not because the store is out of reach, each run is looked at alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tenuto.errors import DecodingError, EnvironmentFault, RecordError
from tenuto.host.programs import Programs, version_of
from tenuto.kernel.records import Mail
from tenuto.store.port import Claim, Store, UnreadableRun

__all__ = ["Contents", "fetch_program", "read_contents"]


class Contents(NamedTuple):
    """What was read of a claimed run; `rows` is None where memory still has them."""

    rows: Sequence[tuple[bytes, bytes]] | UnreadableRun | None
    mail: Sequence[tuple[int, bytes]] | UnreadableRun = ()
    sent: tuple[tuple[int, Mail], ...] = ()  # just stored by this worker, which need not read it


async def read_contents(store: Store, above: Mapping[str, int], fresh: Collection[str]) -> dict[str, Contents]:
    """The mail of these runs, each above its own number, and all rows of those that memory does not have."""
    try:
        mail, rows = await asyncio.gather(store.mail_of(above), _rows_of(store, [*fresh]))
    except Exception as error:  # one run's data may be what it stumbles over: rule 2
        if isinstance(error, EnvironmentFault) and not isinstance(error, RecordError | DecodingError):
            raise
        if len(above) == 1:
            return {run_id: Contents(UnreadableRun(error)) for run_id in above}
        alone = [await read_contents(store, {run_id: above[run_id]}, {run_id} & set(fresh)) for run_id in above]
        return {run_id: contents for one in alone for run_id, contents in one.items()}
    return {run_id: Contents(rows.get(run_id), mail.get(run_id, ())) for run_id in above}


async def _rows_of(store: Store, run_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[bytes, bytes]] | UnreadableRun]:
    return await store.rows_of(run_ids) if run_ids else {}


async def fetch_program(programs: Programs, claim: Claim, contents: Contents) -> Contents:
    """The same, once the text is loaded that the run is executed by, if it has one of its own."""
    rows, target = contents.rows, claim.record.target
    if rows is None or isinstance(rows, UnreadableRun) or programs.is_deployed(target):
        return contents  # of Python the text is the deployed one
    try:
        await programs.fetch(version_of(rows), target)
    except Exception as error:  # noqa: BLE001  # edge 2 of 3: of one run of many; raised where that run is taken up
        return contents._replace(rows=UnreadableRun(error))
    return contents
