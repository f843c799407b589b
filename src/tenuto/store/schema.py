"""Brings a SQLite file to the schema of this release.

Forward only, in one exclusive transaction: of two processes that find an old schema one migrates and the other waits
and finds it done. Each step is additive, so code of the release before keeps working beside this one; what may no
longer is said by `oldest_release`.
"""

from __future__ import annotations

import json
from typing import Final

from tenuto.errors import StoreRefusedError, StoreTooNewError
from tenuto.store.connection import Connection, Settings, wait_while_busy
from tenuto.store.digests import digest_of, names_of, refuse_foreign, refuse_other
from tenuto.store.statements import migrations

__all__ = ["KNOWN_VERSION", "migrate", "require_schema", "schema_version"]

_STEPS: Final = migrations()
KNOWN_VERSION: Final = _STEPS[-1][0]
_SCRIPTS: Final = [script for _, script in _STEPS]
_NAMES: Final = json.dumps(names_of(_SCRIPTS))


def migrate(connection: Connection, settings: Settings) -> None:
    """Applies every step the file has not seen; refuses one whose tables are others than this version makes."""
    version = schema_version(connection)
    if version >= KNOWN_VERSION:
        _require_ours(connection, version)
        return
    wait_while_busy(settings, lambda: connection.run("begin_exclusive"))
    try:
        version = schema_version(connection)  # again: another process may have been faster
        if version == 0:
            refuse_foreign("the file", connection.all("catalog", {"names": _NAMES}))
        for number, script in _STEPS:
            if number > version:
                connection.script(script)
                connection.run("set_meta", {"version": number})
        if version < KNOWN_VERSION:
            connection.run("set_digest", {"digest": _digest(connection)})
    except BaseException:
        if connection.in_transaction:
            connection.run("rollback")
        raise
    connection.run("commit")


def require_schema(connection: Connection) -> None:
    """For those who only read: a file that is no store, or a newer one, is refused; an older one is read as it is."""
    version = schema_version(connection)
    if version == 0:
        raise StoreRefusedError("the file is not a Tenuto store")
    _require_ours(connection, version)


def _require_ours(connection: Connection, version: int) -> None:
    if version != KNOWN_VERSION:
        return  # an older one is brought up to date, a newer one is a newer release's to judge
    stored = connection.one("read_digest") if connection.one("has_digest") == (1,) else None
    refuse_other("the file", version, None if stored is None else stored[0], _digest(connection))


def _digest(connection: Connection) -> str:
    return digest_of(_SCRIPTS, connection.all("catalog", {"names": _NAMES}))


def schema_version(connection: Connection) -> int:
    """The version a file is at; 0 where there is no schema. `StoreTooNewError`."""
    if connection.one("has_meta") == (0,):
        return 0
    meta = connection.one("read_meta")
    version, oldest = (0, 0) if meta is None else meta
    if oldest > KNOWN_VERSION:
        raise StoreTooNewError(
            f"the store has schema {version}, which needs a release that knows schema {oldest};"
            f" this one knows {KNOWN_VERSION}"
        )
    return int(version)
