"""Brings a SQLite file to the schema of this release.

Forward only, in one exclusive transaction: of two processes that find an old schema one migrates and the other waits
and finds it done. Each step is additive, so code of the release before keeps working beside this one; what may no
longer is said by `oldest_release`.
"""

from __future__ import annotations

from typing import Final

from tenuto.errors import StoreTooNewError
from tenuto.store.connection import Connection, Settings, wait_while_busy
from tenuto.store.statements import migrations

__all__ = ["KNOWN_VERSION", "migrate"]

_STEPS: Final = migrations()
KNOWN_VERSION: Final = _STEPS[-1][0]


def migrate(connection: Connection, settings: Settings) -> None:
    """Applies every step the file has not seen."""
    if _version(connection) >= KNOWN_VERSION:
        return
    wait_while_busy(settings, lambda: connection.run("begin_exclusive"))
    try:
        version = _version(connection)  # again: another process may have been faster
        for number, script in _STEPS:
            if number > version:
                connection.script(script)
                connection.run("set_meta", {"version": number})
    except BaseException:
        if connection.in_transaction:
            connection.run("rollback")
        raise
    connection.run("commit")


def _version(connection: Connection) -> int:
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
