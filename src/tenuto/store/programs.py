"""What a store must do about TWF programs: keep each by the hash of its content, for as long as a run may need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["Programs", "by_name"]


class Programs(Protocol):
    """Programs by hash. A run is pinned to the text it started with, so nothing here is ever changed."""

    async def keep_program(self, program_hash: str, source: str, workflows: Sequence[str]) -> None:
        """Keeps a program that defines these workflows; keeping it again changes nothing."""
        ...

    async def program(self, program_hash: str) -> str | None:
        """The text that was kept under a hash."""
        ...

    async def programs_of(self) -> list[tuple[str, list[str]]]:
        """Every workflow that a program defines, with the hashes of those that do; both in order."""
        ...


def by_name(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Names with all their hashes, of pairs in order."""
    found: dict[str, list[str]] = {}
    for name, digest in pairs:
        found.setdefault(name, []).append(digest)
    return list(found.items())
