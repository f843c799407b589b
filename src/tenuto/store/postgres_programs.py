"""TWF programs in Postgres."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.store.postgres_connection import Database, Transaction
from tenuto.store.programs import by_name

__all__ = ["PostgresPrograms"]

T = TypeVar("T")


class PostgresPrograms:
    """See `store.programs`."""

    if TYPE_CHECKING:
        _database: Database

        async def _here(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
        async def _transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T: ...

    async def keep_program(self, program_hash: str, source: str, workflows: Sequence[str]) -> None:
        if await self.program(program_hash) is not None:
            return  # a look costs no commit, and nearly always it is there

        async def keep(transaction: Transaction) -> None:
            await transaction.run("insert_program", {"hash": program_hash, "source": source})
            names = list(workflows)
            kinds = {"ids": names, "hashes": [program_hash] * len(names), "kinds": ["twf"] * len(names)}
            await transaction.run("insert_definitions", kinds)

        await self._transact(keep)

    async def program(self, program_hash: str) -> str | None:
        found = await self._here(lambda: self._database.read("program", {"hash": program_hash}))
        return found[0][0] if found else None

    async def programs_of(self) -> list[tuple[str, list[str]]]:
        rows = await self._here(lambda: self._database.read("programs_of"))
        return by_name((name, digest) for name, digest in rows)
