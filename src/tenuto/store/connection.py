"""One connection to a SQLite file: its settings, its clock, and what its errors mean.

Settings are read back, because SQLite ignores what it cannot do, and a store that promises durability must not (P1).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import apsw

from tenuto.errors import EnvironmentFault, StoreRefusedError, StoreUnavailableError
from tenuto.store.files import is_log_beside, make_file, read_only_error
from tenuto.store.limits import BUFFERED_MESSAGES
from tenuto.store.statements import load_statements
from tenuto.system import REAL, System

__all__ = [
    "STATEMENTS",
    "UNAVAILABLE",
    "Connection",
    "Row",
    "Settings",
    "Values",
    "unavailable",
    "wait_while_busy",
]

STATEMENTS: Final = load_statements("sqlite.sql")

# The file is locked, full, read-only, gone or damaged: nothing the caller did.
UNAVAILABLE: Final = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoLFSError,
    apsw.ProtocolError,
)
_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}
)
_MOUNTS: Final = Path("/proc/self/mounts")
_SYNC: Final = {"full": 2, "normal": 1}
# Prepared, of each connection. Every execution looks through half of them and puts its own in the oldest one's place.
STATEMENTS_KEPT: Final = 100
CHECKPOINT_PAGES: Final = 4_000  # 16 MiB: what is written again and again in them is moved once

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = "Mapping[str, Any] | tuple[Any, ...]"


class Settings:
    """Where the file is and how it is used."""

    __slots__ = ("buffered_messages", "busy_limit_ms", "busy_ms", "clock", "path", "read_only", "sync", "system")

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int],
        sync: Literal["full", "normal"] = "full",
        busy_ms: int = 5_000,
        busy_limit_ms: int = 30_000,
        read_only: bool = False,
        system: System = REAL,
    ) -> None:
        self.path = path
        self.system = system
        self.clock = clock
        self.sync = sync
        self.busy_ms = busy_ms  # SQLite itself waits so long for a lock
        self.busy_limit_ms = busy_limit_ms  # and is asked again until so much has passed
        self.read_only = read_only  # nothing is created, set or migrated
        self.buffered_messages = BUFFERED_MESSAGES  # how many one run may have


class _Database(Protocol):
    """What is used of `apsw.Connection`; its own types need a newer Python than we support."""

    in_transaction: bool

    def cursor(self) -> _Cursor: ...
    def execute(self, statements: str) -> _Cursor: ...
    def set_busy_timeout(self, milliseconds: int) -> None: ...
    def set_wal_hook(self, callable: Callable[[Any, str, int], int]) -> None: ...  # noqa: A002
    def create_scalar_function(self, name: str, callable: Callable[..., object], numargs: int) -> None: ...  # noqa: A002
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def close(self, force: bool) -> None: ...


class _Cursor(Protocol):
    def execute(self, statements: str, bindings: Values) -> _Cursor: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Values]) -> _Cursor: ...
    def fetchall(self) -> list[Row]: ...
    def close(self, force: bool) -> None: ...


class Connection:
    """An open file. Used by one thread at a time; every statement is called by its name in `sqlite.sql`."""

    __slots__ = ("_checkpoint_at", "_cursor", "_db", "_log_pages", "_settings", "now", "waits_for_locks")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._db = _open_to_read(settings) if settings.read_only else _open_to_write(settings)
        self.waits_for_locks = False
        self.wait_for_locks(True)
        self._log_pages = 0  # in the write-ahead log, after the last commit
        self._checkpoint_at = CHECKPOINT_PAGES
        self.now = settings.clock()
        # The clock stands still for the length of one request: all it writes has one time.
        self._db.create_scalar_function("tenuto_now", self._now, 0)
        self._db.create_scalar_function("tenuto_token", settings.system.entropy.token, 1)  # in place of `randomblob`
        self._cursor = self._db.cursor()

    def _now(self) -> int:
        return self.now

    def wait_for_locks(self, wait: bool) -> None:
        """Whether a statement waits while another process has the lock, or is refused at once."""
        if self.waits_for_locks != wait:
            self.waits_for_locks = wait
            self._db.set_busy_timeout(self._settings.busy_ms if wait else 0)

    @property
    def buffered_messages(self) -> int:
        """How many messages that nobody has taken a run may have."""
        return self._settings.buffered_messages

    def look_at_clock(self) -> None:
        self.now = self._settings.clock()

    def set_up(self) -> None:
        """Sets and checks everything the promises rest on."""
        if self._settings.read_only:
            return  # durability is the writers' affair
        refuse_network_file(self._settings.path)
        mode = self.one("wal")
        if mode != ("wal",):
            raise StoreRefusedError(f"{self._settings.path} cannot be used with a write-ahead log (it is {mode})")
        self.run("sync_full" if self._settings.sync == "full" else "sync_normal")
        if sys.platform == "darwin":
            self.run("fullfsync")
        self.run("foreign_keys")
        self.run("journal_size_limit")
        self._db.set_wal_hook(self._note_log)  # in place of checkpoints in the middle of a commit
        if self.one("read_sync") != (_SYNC[self._settings.sync],) or self.one("read_foreign_keys") != (1,):
            raise StoreRefusedError(f"SQLite does not keep the settings asked for {self._settings.path}")

    def _note_log(self, _: object, name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    @property
    def needs_checkpoint(self) -> bool:
        return self._log_pages >= self._checkpoint_at

    def checkpoint(self) -> None:
        """Moves the log into the file, as far as readers let it."""
        _, pages, moved = self.one("checkpoint") or (0, 0, 0)
        self._log_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES + (0 if moved == pages else pages)

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    def close(self) -> None:
        self._cursor.close(True)
        self._db.close(True)

    # --- statements

    def run(self, name: str, values: Values = ()) -> None:
        self._cursor.execute(STATEMENTS[name], values).fetchall()

    def all(self, name: str, values: Values = ()) -> list[Row]:
        return self._cursor.execute(STATEMENTS[name], values).fetchall()

    def one(self, name: str, values: Values = ()) -> Row | None:
        found = self._cursor.execute(STATEMENTS[name], values).fetchall()
        return found[0] if found else None

    def many(self, name: str, values: Iterable[Values]) -> None:
        self._cursor.executemany(STATEMENTS[name], values).fetchall()

    def count(self, name: str, values: Values) -> int:
        """Executes a statement that gives no rows, and says how many it wrote: `RETURNING` would cost as much again."""
        self._cursor.execute(STATEMENTS[name], values)
        return self._db.changes()

    def changed(self) -> int:
        """How many rows the last statement wrote."""
        return self._db.changes()

    def total_changes(self) -> int:
        """How many rows this connection has written so far."""
        return self._db.total_changes()

    def script(self, text: str) -> None:
        """Executes a migration."""
        self._db.execute(text).fetchall()


def _open_to_write(settings: Settings) -> _Database:
    try:
        make_file(settings.path)
    except OSError as error:
        raise unavailable(settings.path, error) from error
    flags = apsw.SQLITE_OPEN_READWRITE
    return cast("_Database", apsw.Connection(str(settings.path), flags, statementcachesize=STATEMENTS_KEPT))


def _open_to_read(settings: Settings) -> _Database:
    """Opens a file as it is. To read a log SQLite writes beside it; where it cannot, there has to be none."""
    path, flags = settings.path, apsw.SQLITE_OPEN_READONLY
    found = cast("_Database", apsw.Connection(str(path), flags, statementcachesize=STATEMENTS_KEPT))
    found.set_busy_timeout(settings.busy_ms)
    try:
        found.execute(STATEMENTS["first_look"]).fetchall()
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        found.close(True)
        if is_log_beside(path):
            error = StoreUnavailableError(f"{path}: the log beside it can only be read where something can be written")
            error.fix = "make its folder writable, or copy the file and what is beside it to one that is"
            raise error from None
        immutable = f"{path.resolve().as_uri()}?immutable=1"
        flags |= apsw.SQLITE_OPEN_URI
        return cast("_Database", apsw.Connection(immutable, flags, statementcachesize=STATEMENTS_KEPT))
    return found


def unavailable(path: Path, error: Exception) -> EnvironmentFault:
    """What a caller gets for an error that is the environment's."""
    if isinstance(error, apsw.NotADBError):
        return StoreRefusedError(f"{path} is not a Tenuto store: it is no SQLite database")
    if isinstance(error, apsw.ReadOnlyError | PermissionError):
        return read_only_error(path)
    return StoreUnavailableError(f"{path}: {error} ({type(error).__name__})")


def wait_while_busy(settings: Settings, attempt: Callable[[], None]) -> None:
    """Does something again while another process holds the lock, up to the limit."""
    clock = settings.system.clock
    give_up = clock.monotonic() + settings.busy_limit_ms / 1000
    while True:
        try:
            attempt()
            return
        except (apsw.BusyError, apsw.LockedError):
            if clock.monotonic() >= give_up:
                raise
            if settings.busy_ms < 10:
                clock.pause(0.01)  # SQLite did not wait itself


def refuse_network_file(path: Path, mounts: Path = _MOUNTS) -> None:
    """Locks and shared memory of a write-ahead log do not work over a network. Told only where the system says so."""
    if not mounts.is_file():
        return
    best, kind = "", ""
    place = str(path.resolve())
    for line in mounts.read_text("utf-8", "replace").splitlines():
        fields = line.split(" ")
        point = fields[1].encode().decode("unicode_escape")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    if kind in _NETWORK:
        raise StoreRefusedError(f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted")
