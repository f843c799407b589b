"""The hooks a run has opened, as its history tells them, and opening them again.

Closing a run frees its tokens, and a run that came from another store has never had any here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tenuto.errors import RunStateError
from tenuto.host.effects import token_hash
from tenuto.kernel.commands import Origin
from tenuto.kernel.location import Location
from tenuto.kernel.records import Child, ChildMode, Rows
from tenuto.store.port import Store

__all__ = ["OpenedHook", "check_tokens", "hooks_of", "open_again"]


class OpenedHook(NamedTuple):
    """A hook whose token the run was given. `key`: what the store knows the hook by."""

    key: str
    token: str


def hooks_of(rows: Rows, deleted: Collection[Location] = ()) -> list[OpenedHook]:
    """Those in a history, but for entries that are being deleted."""
    return list(_hooks(rows, set(deleted)))


def _hooks(rows: Rows, deleted: set[Location]) -> Iterator[OpenedHook]:
    origin = Origin(rows.run_id, rows.counters.generation, rows.counters.rewinds)
    for location, entry in rows.history:
        match entry.kind:
            case Child(mode=ChildMode.HOOK, output=bytes(token)) if location not in deleted:
                yield OpenedHook(origin.key(location), token.decode())
            case _:
                pass


async def check_tokens(store: Store, run_id: str, hooks: Collection[OpenedHook]) -> None:
    """`RunStateError` if another open run has one of the tokens."""
    for hook in hooks:
        owner = await store.hook_owner(token_hash(hook.token))
        if owner is not None and owner != run_id:
            raise _taken(run_id, owner)


async def open_again(store: Store, run_id: str, hooks: Collection[OpenedHook]) -> None:
    """Gives an open run its tokens back; `RunStateError` if another was faster."""
    for hook in hooks:
        if not await store.open_hook(run_id, hook.key, token_hash(hook.token)):
            raise _taken(run_id, await store.hook_owner(token_hash(hook.token)) or "another run")


def _taken(run_id: str, owner: str) -> RunStateError:
    return RunStateError(f"a hook of run {run_id} cannot be opened again: {owner} has its token, and is open")
