"""Connections to a SQLite file, each with a lane: one that writes, one that reads.

Rules:

1. Callers hand in work and await it; the answer comes only after the commit (P1).
2. Requests that were queued while a transaction was being committed are executed together in the next one: one sync
   for all of them. Each has its own savepoint, so one that fails takes no other with it (P5).
3. Work that is short and meets nobody else is done on the caller's own thread while commits are fast: handing it to
   the lane and back takes longer than a commit then. It never waits there for another process's lock, and the work of
   moving the log into the file (a checkpoint) is always the lane's, after its answers were given.
4. What the environment did (locked, full, read-only, gone) is `StoreUnavailableError` for every request of the group;
   the file is opened anew for the next one, so work goes on by itself when the cause is gone. A commit whose sync
   failed is `CommitUnknownError`: nobody can say.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import apsw

from tenuto.errors import CommitUnknownError, StoreRefusedError, StoreUnavailableError, TenutoError
from tenuto.store.connection import UNAVAILABLE, Connection, Row, Settings, Values, unavailable, wait_while_busy
from tenuto.system import Lock

__all__ = ["LaneConnection", "Reader", "Writer"]

T = TypeVar("T")
GROUP: Final = 256
FAST: Final = 0.002  # seconds: what takes less a caller may wait for
_SYNC_FAILED: Final = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


class _Request(Generic[T]):
    """Work to be done on the connection, and the future that waits for it."""

    __slots__ = ("_error", "_future", "_result", "_work", "loop", "quiet")

    def __init__(self, work: Callable[[Connection], T], loop: asyncio.AbstractEventLoop, quiet: bool) -> None:
        self.loop = loop
        self.quiet = quiet
        self._work = work
        self._future: asyncio.Future[T] | None = None  # where the lane does it
        self._result: T | None = None
        self._error: BaseException | None = None

    def perform(self, connection: Connection) -> bool:
        """Does it and keeps what came of it; whether it went well."""
        try:
            connection.look_at_clock()
            self._result = self._work(connection)
        except UNAVAILABLE:
            raise  # not this request's fault: the group's
        except BaseException as error:  # noqa: BLE001  # raised again where the work was handed in
            self._error = error
            return False
        return True

    def fail(self, error: BaseException) -> None:
        self._error = error

    def answer(self) -> T:
        """What came of it; raises what was raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # performed

    def expect(self) -> asyncio.Future[T]:
        """The answer, when the lane has settled it."""
        self._future = self.loop.create_future()
        return self._future

    def settle(self) -> None:
        """On the caller's loop: gives the answer, unless nobody waits any more."""
        if self._future is None or self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)  # type: ignore[arg-type]  # performed


class LaneConnection(ABC):
    """A connection whose lane takes requests in order, as many at once as have come."""

    def __init__(self, settings: Settings, name: str, prepare: Callable[[Connection], None]) -> None:
        self._settings = settings
        self._prepare = prepare
        self._connection: Connection | None = None
        self._using = Lock()  # held by who uses the connection
        self._counting = Lock()
        self._handed_in = 0  # requests that have no answer yet; as long as there are any, the lane has work
        self._pace = 0.0  # seconds that one request took lately
        self._requests: deque[_Request[Any]] = deque()
        self._pid = os.getpid()
        self._closed = False
        self._monotonic = settings.system.clock.monotonic
        self._lane = settings.system.lane(name)

    async def do(self, work: Callable[[Connection], T], *, quiet: bool = False, brief: bool = False) -> T:
        """The result of work on the connection; quiet work is done outside of any transaction.

        `brief`: it touches a few rows only, so that a caller may wait for it.
        """
        if os.getpid() != self._pid:
            raise StoreRefusedError("a store that was opened before a fork cannot be used in the child")
        if self._closed:
            raise StoreUnavailableError(f"{self._settings.path}: the store is closed")
        request: _Request[T] = _Request(work, asyncio.get_running_loop(), quiet)
        if brief and self._do_here(request):
            return request.answer()
        return await self._hand_in(request)

    def _at_once(self, execute: Callable[[Connection, str, Values], T], name: str, values: Values) -> T | None:
        """The answer of one statement, which is its own transaction, where nobody has to be waited for.

        None: it was not executed, or met an error and wrote nothing. `do` is the way then, and says what is wrong.
        """
        connection = self._take_connection() if os.getpid() == self._pid and not self._closed else None
        if connection is None:
            return None
        try:
            began = self._monotonic()
            connection.look_at_clock()
            answer = execute(connection, name, values)
            self._pace += (self._monotonic() - began - self._pace) / 4
            return answer
        except (apsw.BusyError, apsw.LockedError):
            return None
        except UNAVAILABLE as error:
            self._drop()
            self._refuse_unsynced(error)
            return None
        except Exception:  # noqa: BLE001  # the longer way meets it again, and gives it to who asked
            return None
        finally:
            self._using.release()

    def _take_connection(self) -> Connection | None:
        """The connection, for use on this thread, where that is quick and in nobody's way; `_using` is held then."""
        if self._handed_in or self._pace > FAST or not self._lane.may_inline():
            return None
        if not self._using.acquire(blocking=False):
            return None
        connection = self._connection
        if connection is None:
            self._using.release()
        else:
            connection.wait_for_locks(False)
        return connection

    def _hand_in(self, request: _Request[T]) -> asyncio.Future[T]:
        answer = request.expect()
        with self._counting:
            self._requests.append(request)
            self._handed_in += 1
            is_first = self._handed_in == 1
        if is_first:
            self._lane.put(self._serve_next)
        return answer

    def _do_here(self, request: _Request[Any]) -> bool:
        """Does it on this thread, where it can be done there; whether it has an answer now."""
        if self._take_connection() is None:
            return False
        try:
            self._serve_group([request])
        except _NotAtOnce:
            return False
        finally:
            self._using.release()
        self._call_lane()
        return True

    async def close(self) -> None:
        """Finishes what was handed in, and ends the lane."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._lane.put(self._finish)
        await self._lane.close()

    def _finish(self) -> None:
        while self._requests:
            self._serve_next()
        self._drop()

    def _serve_next(self) -> None:
        """On the lane: answers what has been handed in so far, together."""
        group = self._take()
        if not group:
            return  # closing it has answered them
        with self._using:
            if self._connection is not None:
                self._connection.wait_for_locks(True)
            self._serve_group(group)
        with self._counting:
            self._handed_in -= len(group)
            is_more = self._handed_in > 0
        self._settle(group)
        with self._using:
            self._afterwards()
        if is_more:
            self._lane.put(self._serve_next)

    def _serve_group(self, group: list[_Request[Any]]) -> None:
        is_open = self._connection is not None
        began = self._monotonic()
        try:
            self._serve(group)
        except UNAVAILABLE as error:
            self._abandon(group, error)
        except (TenutoError, apsw.Error, OSError) as error:  # opening it failed, or a bug: nobody may wait for ever
            self._drop()
            for request in group:
                request.fail(error)
        if len(group) == 1 and is_open:
            self._pace += (self._monotonic() - began - self._pace) / 4

    def _take(self) -> list[_Request[Any]]:
        """What is queued, as far as one group takes it. Nobody else takes from it."""
        return [self._requests.popleft() for _ in range(min(GROUP, len(self._requests)))]

    @abstractmethod
    def _serve(self, group: list[_Request[Any]]) -> None:
        """Gives each request its answer."""

    @abstractmethod
    def _afterwards(self) -> None:
        """On the lane, once all answers are given: what nobody has to wait for."""

    @abstractmethod
    def _call_lane(self) -> None:
        """Something was done on a caller's thread: lets the lane look whether there is anything to do afterwards."""

    def _open(self) -> Connection:
        if self._connection is None:
            opened = Connection(self._settings)
            try:
                wait_while_busy(self._settings, opened.set_up)
                self._prepare(opened)
            except BaseException:
                opened.close()
                raise
            self._connection = opened
        return self._connection

    def _abandon(self, group: list[_Request[Any]], error: Exception) -> None:
        self._drop()  # rolls back; a connection that has seen the file read-only or gone would stay so
        for request in group:
            failure = unavailable(self._settings.path, error)
            failure.__cause__ = error
            request.fail(failure)

    def _refuse_unsynced(self, error: Exception) -> None:
        # All of it was written and only the sync failed: the next who opens the file may find it committed (P1).
        if getattr(error, "extendedresult", 0) in _SYNC_FAILED:
            raise CommitUnknownError(f"{self._settings.path}: {error}") from error

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):  # closing reports the error again that made us drop it
                connection.close()

    @staticmethod
    def _settle(group: list[_Request[Any]]) -> None:
        # One call for each loop, however many requests: waking a loop is what costs.
        loops: dict[asyncio.AbstractEventLoop, list[_Request[Any]]] = {}
        for request in group:
            loops.setdefault(request.loop, []).append(request)
        for loop, requests in loops.items():
            with suppress(RuntimeError):  # that loop is closed: nobody waits
                loop.call_soon_threadsafe(_settle_all, requests)


def _settle_all(requests: list[_Request[Any]]) -> None:
    for request in requests:
        request.settle()


def _nothing(_: Connection) -> None:
    """Work that only wakes the lane."""


class _NotAtOnce(Exception):
    """Another process has the lock, and who asks does not wait here."""


class Writer(LaneConnection):
    """Executes write requests, many in one transaction."""

    def __init__(
        self, settings: Settings, prepare: Callable[[Connection], None], committed: Callable[[], None]
    ) -> None:
        self._committed = committed
        super().__init__(settings, "tenuto-writer", prepare)

    def at_once(self, name: str, values: Values) -> bool:
        """Whether one statement, as its own transaction, has written anything here and now; else `do` is the way."""
        if not self._at_once(Connection.count, name, values):
            return False
        self._committed()
        self._call_lane()
        return True

    def _serve(self, group: list[_Request[Any]]) -> None:
        connection = self._open()
        for request in group:
            if request.quiet:
                request.perform(connection)
        writes = [request for request in group if not request.quiet]
        if not writes:
            return
        before = connection.total_changes()
        self._begin(connection)
        if len(writes) == 1:
            if not writes[0].perform(connection):
                connection.run("rollback")
                return
        else:
            self._perform_each(connection, writes)
        self._commit(connection)
        if connection.total_changes() != before:  # looking for work and finding none is no news
            self._committed()

    def _begin(self, connection: Connection) -> None:
        if connection.waits_for_locks:
            wait_while_busy(self._settings, lambda: connection.run("begin"))
            return
        try:
            connection.run("begin")
        except (apsw.BusyError, apsw.LockedError):
            raise _NotAtOnce from None

    def _afterwards(self) -> None:
        connection = self._connection
        if connection is not None and connection.needs_checkpoint:
            try:
                connection.checkpoint()
            except apsw.Error:
                self._drop()  # everything is in the log; whoever comes next meets the cause, if it is still there

    def _call_lane(self) -> None:
        connection = self._connection
        if connection is not None and connection.needs_checkpoint:
            self._hand_in(_Request(_nothing, asyncio.get_running_loop(), quiet=True))

    def _commit(self, connection: Connection) -> None:
        try:
            connection.run("commit")
        except apsw.IOError as error:
            self._refuse_unsynced(error)
            raise

    @staticmethod
    def _perform_each(connection: Connection, writes: list[_Request[Any]]) -> None:
        for request in writes:
            connection.run("savepoint")
            if not request.perform(connection):
                connection.run("rollback_request")
            connection.run("release")


class Reader(LaneConnection):
    """Executes read requests, each on one snapshot."""

    def __init__(self, settings: Settings, prepare: Callable[[Connection], None]) -> None:
        super().__init__(settings, "tenuto-reader", prepare)

    def at_once(self, name: str, values: Values) -> list[Row] | None:
        """The rows of one statement, which sees one snapshot by itself; None: `do` is the way."""
        return self._at_once(Connection.all, name, values)

    def _serve(self, group: list[_Request[Any]]) -> None:
        connection = self._open()
        for request in group:
            connection.run("begin_read")
            request.perform(connection)
            connection.run("commit")

    def _afterwards(self) -> None:
        pass  # nothing was written

    def _call_lane(self) -> None:
        pass
