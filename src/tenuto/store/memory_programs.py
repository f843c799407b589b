"""TWF programs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenuto.store.memory_state import Shelf
from tenuto.store.programs import by_name

__all__ = ["MemoryPrograms"]


class MemoryPrograms:
    """See `store.programs`."""

    if TYPE_CHECKING:
        _shelf: Shelf

    async def keep_program(self, program_hash: str, source: str, workflows: Sequence[str]) -> None:
        self._shelf.programs.setdefault(program_hash, (source, tuple(workflows)))

    async def program(self, program_hash: str) -> str | None:
        found = self._shelf.programs.get(program_hash)
        return None if found is None else found[0]

    async def programs_of(self) -> list[tuple[str, list[str]]]:
        programs = self._shelf.programs
        return by_name(sorted((name, digest) for digest, (_, names) in programs.items() for name in names))
