"""Every case of the model runs twice: in one piece, and rebuilt from its rows after each turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import pytest

from tenuto.codec.values import dump
from tenuto.kernel.records import Mail, MailKind
from tenuto.testing import Engine, Run


class Ask(Protocol):
    """Sends an update without waiting; gives what waits for its answer."""

    def __call__(
        self,
        run: Run[Any],
        name: str,
        /,
        *args: object,
        id: str = ...,  # noqa: A002
    ) -> Awaitable[Callable[[], Awaitable[Any]]]: ...


@pytest.fixture(params=[False, True], ids=["in_one_piece", "crashing_everywhere"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = Engine(crash_everywhere=request.param, patience=0.01)
    yield engine
    engine.close()


@pytest.fixture
def ask(engine: Engine) -> Ask:
    async def ask(
        run: Run[Any],
        name: str,
        /,
        *args: object,
        id: str = "u",  # noqa: A002
    ) -> Callable[[], Awaitable[Any]]:
        mail = Mail(MailKind.UPDATE, name, id, dump(list(args)), None, 0, engine.now_ms)
        await engine.store.send(run.id, mail)
        engine.wake(run.id)
        await engine.settle()
        return lambda: run._answer(id)  # the engine's own way of waiting

    return ask


async def locations(run: Run[Any]) -> list[str]:
    """Where something is recorded, in the order it settled; what is under way last."""
    return [entry.location for entry in await run.history()]


@pytest.fixture(name="locations")
def locations_fixture() -> Callable[[Run[Any]], Awaitable[list[str]]]:
    return locations
