"""A store that is given every commit at length, so that it takes the full way (TENUTO_SLOW=commits)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tenuto.store.commits import Commit, Outgoing, full
from tenuto.store.port import Store, TurnResult

__all__ = ["widened"]


def widened(store: Store) -> Store:
    """Return the same store without its short ways. Its answers are the same, later."""
    return cast("Store", _Widened(store))


class _Widened:
    """Commits at length; everything else is the store's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commit: Commit) -> list[Outgoing]:
        return await self._store.commit(full(commit))

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        return await self._store.commit_group([full(commit) for commit in commits])
