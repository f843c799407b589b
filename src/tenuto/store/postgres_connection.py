"""Connections to Postgres: their settings, their errors, transactions that are repeated, and the server's clock.

Rules:

1. Every connection is in autocommit: a single statement is its own transaction; several are put between `begin` and
   `commit` in one pipeline, in which only reading an answer waits for the server.
2. What the server refused because of others (40001, 40P01) is repeated as a whole. A connection lost before COMMIT was
   sent has changed nothing, and the work is repeated once; lost after it, nobody knows: `CommitUnknownError`.
3. The estimate of the server's clock is never ahead of it: its last answer, carried on by the monotonic clock (P4).
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, LiteralString, TypeAlias, TypeVar, cast

from tenuto.errors import CommitUnknownError, ConfigError, InvalidNameError, StoreRefusedError, StoreUnavailableError
from tenuto.store.clock import Now
from tenuto.store.limits import BUFFERED_MESSAGES
from tenuto.store.sharing import SharedLook
from tenuto.store.statements import load_statements
from tenuto.system.switches import switches

try:
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
    from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

    from tenuto.store import postgres_arrays
    from tenuto.store.postgres_wire import Connection, CursorWire, Row, Values, Wire
except ImportError as missing:
    raise ConfigError("the Postgres store needs psycopg: pip install 'psycopg[binary,pool]'") from missing
from tenuto.system import REAL, System

__all__ = [
    "INSISTED",
    "STATEMENTS",
    "Cursor",
    "Database",
    "Row",
    "Transaction",
    "Values",
    "check_settings",
    "require_text",
]

T = TypeVar("T")
Cursor: TypeAlias = "psycopg.AsyncCursor[Row]"

# Out of our own file: as literal as if it stood here. To mypy every text is.
STATEMENTS: Final = cast("Mapping[str, LiteralString]", load_statements("postgres.sql"))  # type: ignore[redundant-cast]
OLDEST_SERVER: Final = 140_000
ATTEMPTS: Final = 10
CONNECT_SECONDS: Final = 10
CLOCK_AGE: Final = 1.0  # seconds an answer of the server's clock is carried on

# How a statement refuses that insists on something (`postgres.sql`); the second, where it meets a key of another run
# before it comes to look at its own fence.
INSISTED: Final = (errors.DivisionByZero, errors.UniqueViolation)
_CROSSED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_UNAVAILABLE: Final = (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction)


class _LostError(Exception):
    """The connection broke before anything could have been committed on it."""


class Transaction:
    """Statements between `begin` and `commit`, by their name in `postgres.sql`."""

    __slots__ = ("_connection", "buffered_messages", "now")

    def __init__(self, connection: Connection, now: int, buffered_messages: int) -> None:
        self._connection = connection
        self.now = now  # as written into records; what is compared is compared by the server
        self.buffered_messages = buffered_messages  # how many one run may have

    async def start(self, name: str, values: Values = None) -> Cursor:
        """Sends a statement; its rows can be fetched later, and until then nobody waits."""
        cursor = self._connection.cursor(binary=True)
        await cursor.execute(STATEMENTS[name], values, prepare=True)
        return cursor

    async def run(self, name: str, values: Values = None) -> None:
        await self.start(name, values)

    async def all(self, name: str, values: Values = None) -> list[Row]:
        return await (await self.start(name, values)).fetchall()

    async def one(self, name: str, values: Values = None) -> Row | None:
        found = await self.all(name, values)
        return found[0] if found else None


class Database:
    """A few connections to one database, all used on one event loop."""

    def __init__(
        self, url: str, clock: Now | None = None, connections: int = 10, read_only: bool = False, system: System = REAL
    ) -> None:
        try:
            place = conninfo_to_dict(url)
            self.connect_seconds = int(place.get("connect_timeout") or CONNECT_SECONDS)
        except (psycopg.ProgrammingError, ValueError):
            # Without its text, which may quote a password.
            raise ConfigError("not a Postgres URL; write postgresql://user@host:port/database") from None
        self.url = url
        self.clock = clock
        self.read_only = read_only
        self.system = system
        self._monotonic = system.clock.monotonic
        self.buffered_messages = BUFFERED_MESSAGES  # how many one run may have
        self.path: str | None = None  # in which names are looked for: known from the first connection on
        self.shown = f"postgresql://{place.get('host', '')}/{place.get('dbname', '')}"
        self._room = asyncio.Semaphore(connections)
        self._idle: list[Wire] = []
        self._open = True
        self._offset: float | None = None  # the server's milliseconds less the monotonic ones
        self._learned = 0.0
        self._look = SharedLook()

    # --- connections

    async def connect(self) -> Connection:
        """A new connection with our settings."""
        with self.translated():
            connection: Connection = await psycopg.AsyncConnection.connect(
                self.url,
                autocommit=True,
                connect_timeout=self.connect_seconds,
                fallback_application_name="tenuto",
            )
            connection.prepared_max = 500
            # All integers as bigint: psycopg would choose a type by the value, and each is another prepared statement.
            connection.adapters.register_dumper(int, Int8Dumper)
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            postgres_arrays.register(connection)
            try:
                await connection.execute(STATEMENTS["set_up"], {"path": self.path})
                if self.path is None:
                    self.path = await self._own_path(connection)
                    await connection.execute(STATEMENTS["set_up"], {"path": self.path})
                if self.read_only:
                    await connection.execute(STATEMENTS["only_read"])
            except BaseException:
                await connection.close()
                raise
        return connection

    async def _own_path(self, connection: Connection) -> str:
        row = await (await connection.execute(STATEMENTS["own_path"])).fetchone()
        if row is None or row[0] is None:
            raise StoreRefusedError(f"{self.shown}: no schema of the search_path is there; create it, or name another")
        return str(row[0])

    async def require_sessions(self, first: Connection) -> None:
        """Refuses a pooler that hands each statement to another session: settings, listening and locks need their own.

        Two connections set the same thing and read it back: where they share sessions one finds what the other set,
        whichever session it is given; where there are more sessions than that, one finds nothing.
        """
        async with await self.connect() as second:
            marks = {connection: self.system.entropy.token(8).hex() for connection in (first, second)}
            for connection, mark in marks.items():
                await connection.execute(STATEMENTS["mark_session"], {"mark": mark})
            for connection in (first, first, second, second, first):
                row = await (await connection.execute(STATEMENTS["read_mark"])).fetchone()
                if row != (marks[connection],):
                    raise StoreRefusedError(
                        f"{self.shown} does not keep a session for each connection: a pooler that pools transactions"
                        " is in between; have it pool sessions, or connect to the server itself"
                    )

    async def _take(self) -> Wire:
        if not self._open:
            raise StoreUnavailableError(f"{self.shown}: the store is closed")
        await self._room.acquire()
        try:
            while self._idle:
                wire = self._idle.pop()
                if not _has_news(wire.connection):
                    return wire
                await _close(wire)  # an idle server says nothing but that it goes
            return (CursorWire if switches().wire else Wire)(await self.connect())
        except BaseException:
            self._room.release()
            raise

    async def _give(self, wire: Wire) -> None:
        """Takes a connection back; one in the middle of something is closed."""
        pgconn = wire.connection.pgconn
        try:
            if pgconn.transaction_status in (TransactionStatus.INERROR, TransactionStatus.INTRANS):
                wire.rest()
                wire.forget()  # as the driver does when it sees a rollback, here and on the server
                with suppress(psycopg.Error):
                    await wire.connection.execute(STATEMENTS["rollback"])
            if self._open and pgconn.transaction_status == TransactionStatus.IDLE:
                self._idle.append(wire)
            else:
                await _close(wire)
        finally:
            self._room.release()

    async def close(self) -> None:
        self._open = False
        while self._idle:
            await _close(self._idle.pop())

    @contextmanager
    def translated(self) -> Generator[None]:
        """What the environment did is said as `StoreUnavailableError`."""
        try:
            yield
        except _UNAVAILABLE as error:
            raise StoreUnavailableError(f"{self.shown}: {str(error).strip()} ({type(error).__name__})") from error

    # --- work

    async def read(self, name: str, values: Values = None) -> list[Row]:
        """One statement that changes nothing; repeated once where the connection was lost."""
        try:
            return await self._single(name, values)
        except _LostError:
            try:
                return await self._single(name, values)
            except _LostError as lost:
                raise self._unavailable(lost) from lost.__cause__

    async def write(self, name: str, values: Values = None) -> list[Row]:
        """One statement that is its own transaction."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._single(name, values)
            except _CROSSED as error:
                await self._pause(attempt, error)
            except _LostError as lost:
                raise self._unknown(lost) from lost.__cause__
        raise AssertionError("unreachable")  # the last pause raises

    async def _single(self, name: str, values: Values) -> list[Row]:
        wire = await self._take()
        try:
            if self.clock is not None:
                await wire.execute(STATEMENTS["set_clock"], {"now": self.clock()})
            return await wire.execute(STATEMENTS[name], values)
        except _CROSSED:
            raise
        except _UNAVAILABLE as error:
            if wire.connection.broken or wire.connection.closed:
                raise _LostError(str(error).strip()) from error
            with self.translated():
                raise
        except psycopg.DataError as error:
            _refuse_text(error)
            raise
        finally:
            await self._give(wire)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """The result of work that is committed; the work is repeated where others were in its way."""
        lost_before = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt(work)
            except _CROSSED as error:
                await self._pause(attempt, error)
            except _LostError as lost:
                if lost_before:
                    raise self._unavailable(lost) from lost.__cause__
                lost_before = True
        raise AssertionError("unreachable")  # the last pause raises

    async def _attempt(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        now = await self.now()
        wire = await self._take()
        wire.rest()
        connection = wire.connection
        committing = False
        try:
            async with connection.pipeline():
                transaction = Transaction(connection, now, self.buffered_messages)
                await transaction.run("begin")
                if self.clock is not None:
                    await transaction.run("set_clock", {"now": now})
                result = await work(transaction)
                committing = True
                await transaction.run("commit")
            return result
        except _CROSSED:
            raise
        except _UNAVAILABLE as error:
            if connection.broken or connection.closed:
                lost = _LostError(str(error).strip())
                raise self._unknown(lost) if committing else lost from error
            with self.translated():
                raise
        except psycopg.DataError as error:
            _refuse_text(error)
            raise
        finally:
            await self._give(wire)

    async def _pause(self, attempt: int, error: Exception) -> None:
        if attempt == ATTEMPTS:
            raise StoreUnavailableError(f"{self.shown}: {attempt} attempts collided with others: {error}") from error
        await asyncio.sleep(0.002 * 2**attempt)

    def _unavailable(self, lost: _LostError) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.shown}: {lost}")

    def _unknown(self, lost: _LostError) -> CommitUnknownError:
        return CommitUnknownError(f"{self.shown}: the connection was lost during a commit: {lost}")

    # --- the clock

    async def now(self) -> int:
        """The server's time in milliseconds, or a little before it."""
        known = self.known_now()
        if known is not None:
            return known
        await self._look.until(lambda: self.known_now() is not None, self._ask_clock)
        return int(self._monotonic() * 1000 + (self._offset or 0.0))

    async def _ask_clock(self) -> None:
        ((answer,),) = await self.read("clock")
        self.learn(answer)

    def known_now(self) -> int | None:
        """The same, where the last answer is not too old to be carried on."""
        if self.clock is not None:
            return self.clock()
        here = self._monotonic()
        if self._offset is None or here - self._learned > CLOCK_AGE:
            return None
        return int(here * 1000 + self._offset)

    def learn(self, server_ms: int) -> None:
        """Notes an answer of the server's clock, which was given in the past."""
        here = self._monotonic()
        offset = server_ms - here * 1000
        if self._offset is None or offset > self._offset or here - self._learned > CLOCK_AGE:
            self._offset, self._learned = offset, here


_NO_TEXT: Final = "Postgres cannot store U+0000 in an id or a name"


def require_text(text: str) -> str:
    """The text, if Postgres can be asked about it: what is asked together with others must not fail for them."""
    if "\0" in text:
        raise InvalidNameError(_NO_TEXT)
    text.encode()  # half a character is refused here, as the driver would
    return text


def _refuse_text(error: psycopg.DataError) -> None:
    """Texts of Postgres have one character less than Python's; the driver says so, or the server of a column."""
    if "NUL" in str(error) or "0x00" in str(error):
        raise InvalidNameError(_NO_TEXT) from error


async def _close(wire: Wire) -> None:
    wire.rest()
    await wire.connection.close()


def _has_news(connection: Connection) -> bool:
    """Whether an idle connection has something to read: its end, or the announcement of it."""
    if connection.closed:
        return True
    return bool(select.select((connection.pgconn.socket,), (), (), 0)[0])


def check_settings(shown: str, row: Row, *, read_only: bool = False) -> None:
    """Refuses a server that cannot keep what we promise; `StoreUnavailableError` for one that is only read."""
    commits, version, _, reads_only = row
    if version < OLDEST_SERVER:
        raise StoreRefusedError(f"{shown} is Postgres {version // 10_000}; the oldest that works is 14")
    if commits != "on":
        raise StoreRefusedError(f"{shown} does not keep synchronous_commit = on (it is {commits})")
    if reads_only == "on" and not read_only:
        raise StoreUnavailableError(f"{shown} can only be read")
