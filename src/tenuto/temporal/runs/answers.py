"""The answers that a run owes to updates it has accepted."""

from __future__ import annotations

import asyncio
from functools import partial

from tenuto.errors import UpdateFailedError, UpdateRejectedError
from tenuto.kernel.commands import ReplyUpdate
from tenuto.kernel.operations import Err, Ok
from tenuto.temporal.payloads import carries, carries_dumped
from tenuto.temporal.runs.performing import Performer

__all__ = ["Answers"]


class Answers:
    """By the ids of the updates."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._open: dict[str, asyncio.Future[bytes]] = {}

    def expect(self, update_id: str) -> asyncio.Future[bytes]:
        """Where the answer will be."""
        answer = self._open[update_id] = asyncio.get_running_loop().create_future()
        return answer

    def give(self, command: ReplyUpdate) -> None:
        answer = self._open.pop(command.id, None)
        if answer is None or answer.done():
            return
        match command.outcome:
            case Ok(value):
                self._performer.say(command.id, len(value), partial(answer.set_result, value))
            case Err(error=error):
                failure = carries_dumped(error)
                self._performer.say(command.id, len(error), partial(answer.set_exception, failure))
            case None:
                why, reason = command.rejected or ("closed", None)
                # Temporal has accepted it already: what has changed since makes it fail instead of being refused.
                stale = UpdateFailedError("stale")
                stale.__cause__ = UpdateRejectedError(why, reason)
                answer.set_exception(carries(stale if why == "validator" else UpdateRejectedError(why, reason)))

    def close(self) -> None:
        """The run has ended: nobody else gives them."""
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(carries(UpdateRejectedError("closed")))
