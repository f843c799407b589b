"""TWF programs in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenuto.store.connection import Connection
from tenuto.store.programs import by_name

__all__ = ["SqlitePrograms"]

T = TypeVar("T")


class SqlitePrograms:
    """See `store.programs`."""

    if TYPE_CHECKING:

        async def _write(self, work: Callable[[Connection], T]) -> T: ...
        async def _read(self, work: Callable[[Connection], T]) -> T: ...

    async def keep_program(self, program_hash: str, source: str, workflows: Sequence[str]) -> None:
        if await self.program(program_hash) is not None:
            return  # a look costs no commit, and nearly always it is there

        def keep(connection: Connection) -> None:
            connection.run("insert_program", {"hash": program_hash, "source": source})
            connection.many("insert_definition", [(name, program_hash, "twf") for name in workflows])

        await self._write(keep)

    async def program(self, program_hash: str) -> str | None:
        found = await self._read(lambda connection: connection.one("program", {"hash": program_hash}))
        return None if found is None else found[0]

    async def programs_of(self) -> list[tuple[str, list[str]]]:
        rows = await self._read(lambda connection: connection.all("programs_of"))
        return by_name((name, digest) for name, digest in rows)
