"""Brings a Postgres database to the schema of this release.

Forward only, in one transaction, under an advisory lock: of two processes that find an old schema one migrates and the
other waits and finds it done. Version numbers mean the same as in SQLite.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final, LiteralString, cast

from tenuto.errors import StoreRefusedError, StoreTooNewError
from tenuto.store.digests import digest_of, names_of, refuse_foreign, refuse_other
from tenuto.store.postgres_connection import STATEMENTS, Row

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["KNOWN_VERSION", "migrate", "require_schema", "schema_version"]

_NAME: Final = re.compile(r"(\d{4})_\w+\.sql")


def _steps() -> list[tuple[int, LiteralString]]:
    found = (files("tenuto.store") / "migrations" / "postgres").iterdir()
    return sorted(
        # Out of our own files: as literal as if they stood here. To mypy every text is.
        (int(match[1]), cast("LiteralString", step.read_text("utf-8")))  # type: ignore[redundant-cast]
        for step in found
        if (match := _NAME.fullmatch(step.name)) is not None
    )


_STEPS: Final = _steps()
KNOWN_VERSION: Final = _STEPS[-1][0]
_SCRIPTS: Final = [script for _, script in _STEPS]
_NAMES: Final = names_of(_SCRIPTS)


async def migrate(connection: AsyncConnection[Row]) -> None:
    """Applies every step the database has not seen; refuses one whose tables are others than this version makes.

    The connection is of no other use, and closed afterwards.
    """
    version = await schema_version(connection)
    if version >= KNOWN_VERSION:
        await _require_ours(connection, version)
        return
    await connection.execute(STATEMENTS["lock_migrations"])  # until the connection is closed
    async with connection.transaction():
        version = await schema_version(connection)  # again: another process may have been faster
        if version == 0:
            found = await (await connection.execute(STATEMENTS["catalog"], {"names": _NAMES})).fetchall()
            refuse_foreign("the schema of the database", found)
        for number, script in _STEPS:
            if number > version:
                await connection.execute(script)
                await connection.execute(STATEMENTS["set_meta"], {"version": number})
        if version < KNOWN_VERSION:
            await connection.execute(STATEMENTS["set_digest"], {"digest": await _digest(connection)})


async def require_schema(connection: AsyncConnection[Row]) -> None:
    """For those who only read: a database without our tables, or with newer ones, is refused."""
    version = await schema_version(connection)
    if version == 0:
        raise StoreRefusedError("the database has no Tenuto store")
    await _require_ours(connection, version)


async def _require_ours(connection: AsyncConnection[Row], version: int) -> None:
    if version != KNOWN_VERSION:
        return  # an older one is brought up to date, a newer one is a newer release's to judge
    row = await (await connection.execute(STATEMENTS["read_digest"])).fetchone()
    refuse_other("the database", version, None if row is None else row[0], await _digest(connection))


async def _digest(connection: AsyncConnection[Row]) -> str:
    found = await (await connection.execute(STATEMENTS["catalog"], {"names": _NAMES})).fetchall()
    return digest_of(_SCRIPTS, found)


async def schema_version(connection: AsyncConnection[Row]) -> int:
    """The version a database is at; 0 where there is no schema. `StoreTooNewError`."""
    found = await (await connection.execute(STATEMENTS["has_meta"])).fetchone()
    if found == (False,):
        return 0
    meta = await (await connection.execute(STATEMENTS["read_meta"])).fetchone()
    version, oldest = (0, 0) if meta is None else meta
    if oldest > KNOWN_VERSION:
        raise StoreTooNewError(
            f"the store has schema {version}, which needs a release that knows schema {oldest};"
            f" this one knows {KNOWN_VERSION}"
        )
    return int(version)
