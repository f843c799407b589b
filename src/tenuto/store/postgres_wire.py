"""One statement on one connection, with little between the store and libpq.

The driver's cursor converts the text, keeps books and registers with the event loop for every statement. A lone step is
one statement, so here the text is converted once, and the event loop keeps an eye on the connection for its life. The
driver still connects, translates values, and has transactions.

Rules:

1. The driver registers the same socket with the event loop: a wire rests before it gets to use the connection.
2. libpq closes the socket of a connection that is lost, and its number goes to the next one that is opened: whatever
   fails rests before anything else can happen.
3. An answer is read to its end: the server commits after it has sent the rows, and that may still fail. What nobody
   waits for any more is cancelled, and its answer read to the end too; where that fails, the connection stays active,
   which is how its owner knows that it is of no more use.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

__all__ = ["Connection", "CursorWire", "Row", "Values", "Wire", "dollars"]

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = "Mapping[str, Any] | None"
Connection: TypeAlias = "psycopg.AsyncConnection[Row]"

CANCEL_SECONDS: Final = 5
_PLACE: Final = re.compile(r"%(?:%|\((\w+)\)s)")
_DONE: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)


@dataclass(frozen=True, slots=True)
class Dollars:
    """A statement as the server reads it, and the names of its parameters in the order of their numbers."""

    text: bytes
    names: tuple[str, ...]
    formats: tuple[PyFormat, ...]


@cache
def dollars(text: LiteralString) -> Dollars:
    """`%(name)s` as `$1` and so on, the same name as the same number; `%%` as `%`."""
    numbers: dict[str, int] = {}

    def number(place: re.Match[str]) -> str:
        name = place[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    converted = _PLACE.sub(number, text).encode()
    return Dollars(converted, tuple(numbers), (PyFormat.AUTO,) * len(numbers))


class Wire:
    """A connection in autocommit, for one statement at a time. On the event loop it was made on."""

    __slots__ = (
        "_answer",
        "_failure",
        "_generation",
        "_loop",
        "_pgconn",
        "_prepared",
        "_socket",
        "_transformer",
        "_waiter",
        "connection",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._loop = asyncio.get_running_loop()
        self._socket = -1  # the one that the event loop has an eye on
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._generation = 0  # of what is prepared: the server may still know the names of the one before
        self._waiter: asyncio.Future[None] | None = None
        self._answer: list[PGresult] = []
        self._failure: psycopg.Error | None = None

    async def execute(self, text: LiteralString, values: Values = None) -> list[Row]:
        """The rows of one statement that is its own transaction; fails as the driver's cursor would."""
        statement = dollars(text)
        try:
            return await self._execute(statement, values)
        except _FORGOTTEN as error:
            # What failed has changed nothing, so it can be repeated.
            if not self._prepared or not _is_forgotten(error):
                raise
        self.forget()
        return await self._execute(statement, values)

    def forget(self) -> None:
        """Prepares everything anew: what was prepared is gone, or means something else by now."""
        self._prepared.clear()
        self._generation += 1

    def _name_of(self, text: bytes, types: tuple[int, ...]) -> bytes:
        """Made of the text, so that no name means another statement, whoever has prepared it on this session."""
        digest = sha256(b"%b %b" % (repr(types).encode(), text)).hexdigest()
        return b"tenuto_%b_%d" % (digest[:32].encode(), self._generation)

    def rest(self) -> None:
        """Lets the event loop look away, so that others can use the connection, or close it."""
        if self._socket >= 0:
            with suppress(OSError):  # libpq has closed it while it had more to send
                self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket = -1

    # --- a statement

    async def _execute(self, statement: Dollars, values: Values) -> list[Row]:
        transformer = self._transformer
        given = [] if values is None else [values[name] for name in statement.names]
        parameters = transformer.dump_sequence(given, statement.formats)
        types, formats = transformer.types or (), transformer.formats
        name = self._prepared.get((statement.text, types))
        try:
            if name is None:
                name = self._name_of(statement.text, types)
                self._pgconn.send_prepare(name, statement.text, types)
                await self._until_answered()
                self._prepared[statement.text, types] = name
            self._pgconn.send_query_prepared(name, parameters, formats, Format.BINARY)
            answer = await self._until_answered()
        except psycopg.Error:
            self.rest()
            raise
        if answer.status != ExecStatus.TUPLES_OK:
            return []
        transformer.set_pgresult(answer)
        rows = transformer.load_rows(0, answer.ntuples, tuple)
        transformer.set_pgresult(None)
        return rows

    async def _until_answered(self) -> PGresult:
        """The answer to what was sent."""
        self._answer, self._failure = [], None
        self._waiter = self._loop.create_future()
        try:
            if self._socket < 0:
                self._socket = self._pgconn.socket
                self._loop.add_reader(self._socket, self._receive)
            if self._pgconn.flush():  # more than the socket takes at once
                self._loop.add_writer(self._socket, self._send)
            await self._waiter
        except asyncio.CancelledError:
            await self._withdraw()
            raise
        finally:
            self._waiter = None
        answer, failure = self._answer, self._failure
        self._answer, self._failure = [], None
        for result in answer:
            if result.status not in _DONE:
                raise errors.error_from_result(result, self._transformer.encoding)
        if failure is not None:
            raise failure
        return answer[0]

    async def _withdraw(self) -> None:
        """Nobody waits any more: the server is told so."""
        if self._pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        self._waiter = self._loop.create_future()
        with suppress(psycopg.Error, TimeoutError):
            await self.connection.cancel_safe(timeout=CANCEL_SECONDS)
            await asyncio.wait_for(self._waiter, CANCEL_SECONDS)

    # --- called by the event loop

    def _receive(self) -> None:
        """Something came; the last of an answer wakes who waits for it."""
        if self._waiter is None:  # an idle server says nothing but that it goes: left for who takes the connection next
            self.rest()
            return
        try:
            self._pgconn.consume_input()
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    self._wake()
                    return
                self._answer.append(result)
        except psycopg.Error as error:
            self._fail(error)

    def _send(self) -> None:
        """The socket takes more."""
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self._fail(error)

    def _fail(self, error: psycopg.Error) -> None:
        self.rest()
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class CursorWire(Wire):
    """A wire that lets the driver's cursor do the work (TENUTO_SLOW=wire)."""

    __slots__ = ()

    async def execute(self, text: LiteralString, values: Values = None) -> list[Row]:
        self.rest()
        cursor = self.connection.cursor(binary=True)
        await cursor.execute(text, values, prepare=True)
        return [] if cursor.description is None else await cursor.fetchall()


def _is_forgotten(error: psycopg.Error) -> bool:
    """Whether the server does not know a prepared statement, or refuses it since a table has changed."""
    if isinstance(error, errors.InvalidSqlStatementName):
        return True
    result = error.pgresult
    return result is not None and result.error_field(DiagnosticField.SOURCE_FUNCTION) == b"RevalidateCachedQuery"
