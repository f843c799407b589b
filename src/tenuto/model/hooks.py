"""Tokens by which the outside reaches a run: callbacks, webhooks, approvals by link."""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator
from typing import Any

from tenuto.errors import HookNotFoundError
from tenuto.kernel.location import check_name
from tenuto.kernel.operations import ChildOp, WaitOp
from tenuto.kernel.records import ChildMode
from tenuto.model.messages import unpack
from tenuto.model.place import current
from tenuto.model.waiting import any_done

__all__ = ["Hook", "hook"]


def hook(token: str | None = None, /) -> Coroutine[Any, Any, Hook]:
    """A hook, once its token is registered; without one, the host mints a token nobody can guess.

    approval = await hook()
    await send_mail(f"https://shop.example/approve/{approval.token}")
    answer = await approval
    """
    current("hook()")
    return _register(None if token is None else check_name(token))


async def _register(token: str | None) -> Hook:
    port = current("hook()").port
    registered = await port.issue(ChildOp("hook", ChildMode.HOOK, token, ""))
    return Hook(registered.decode())


class Hook(AsyncIterator[Any], Awaitable[Any]):
    """An open hook. `await` takes one payload, `async for` takes them until `close()`; both in order of arrival."""

    __slots__ = ("_closed", "_waits", "token")

    def __init__(self, token: str) -> None:
        self.token = token
        self._closed = False
        self._waits: list[Future[bytes]] = []

    def close(self) -> None:
        """Takes no more payloads: `async for` ends, and the token is free again."""
        port = current("Hook.close()").port
        if not self._closed:
            port.close_hook(self.token)
        self._closed = True
        for wait in list(self._waits):
            wait.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._take().__await__()

    async def __anext__(self) -> Any:
        try:
            return await self._take()
        except HookNotFoundError:
            raise StopAsyncIteration from None

    async def _take(self) -> Any:
        port = current("awaiting a hook").port
        if self._closed:
            raise self._gone()
        wait = port.issue(WaitOp("hook", (f"hook:{self.token}",)))
        self._waits.append(wait)
        try:
            await any_done(wait)
        except CancelledError:
            wait.cancel()
            raise
        finally:
            self._waits.remove(wait)
        if wait.cancelled():
            raise self._gone()
        return unpack(port.decode(wait.result()))

    def _gone(self) -> HookNotFoundError:
        return HookNotFoundError("this hook was closed; it takes no more payloads")
