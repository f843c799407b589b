"""Every case runs twice: in one piece, and rebuilt from its rows after each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenuto.codec.values import dump
from tenuto.kernel.records import Mail, MailKind
from tenuto.model.registry import default
from tenuto.testing import Engine, Run
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import Bindings, CompiledProgram, load_program

library = default.provided(TwfProvider).library


@pytest.fixture(params=[False, True], ids=["in_one_piece", "crashing_everywhere"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = Engine(crash_everywhere=request.param, patience=0.01)
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def empty_library() -> Iterator[None]:
    """What a test loads is gone after it."""
    before = {item.id for sort in ("workflow", "step") for item in default.definitions(sort)}  # type: ignore[arg-type]
    kept = (
        dict(library.programs),
        list(library.bindings),
        dict(library.namespaces),
        dict(library.elsewhere),
    )
    yield
    for sort in ("workflow", "step"):
        for item in default.definitions(sort):  # type: ignore[arg-type]
            if item.id not in before:
                default.forget(item.id)
    (
        library.programs,
        library.bindings,
        library.namespaces,
        library.elsewhere,
    ) = kept


class World:
    """A program, its bindings, and an engine to run them on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.b = Bindings()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.cancelled: list[str] = []
        self.started = engine.now_ms

    def load(self, text: str, path: str = "flow.twf") -> CompiledProgram:
        return load_program(files={path: text.lstrip("\n")}, bindings=self.b)

    def activity(self, name: str, result: Any = None, takes: Any = None, fails: Exception | None = None) -> None:
        """Binds an activity: what it gives, how long it takes, or what it raises in the end."""

        async def perform(*args: Any) -> Any:
            self.calls.append((name, args))
            try:
                length = takes(*args) if callable(takes) else takes
                if length is not None:
                    await self.engine.takes(length)
            except BaseException:
                self.cancelled.append(name)
                raise
            if fails is not None:
                raise fails
            return result(*args) if callable(result) else result

        self.b.activity(name)(perform)

    async def start(self, name: str, *args: Any, **options: Any) -> Run[Any]:
        self.started = self.engine.now_ms
        return await self.engine.start(name, *args, **options)

    async def result(self, name: str, *args: Any) -> Any:
        return await (await self.start(name, *args)).result()

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the last start."""
        return (self.engine.now_ms - self.started) / 1000

    async def settle(self) -> None:
        """Everything that can happen has happened, attempts that were asked to stop included."""
        await self.engine.settle()
        for _ in range(3):
            await asyncio.sleep(0)

    def count(self, name: str) -> int:
        return sum(called == name for called, _ in self.calls)

    async def send(self, run: Run[Any], kind: str, name: str, *args: Any, id: str = "u") -> None:  # noqa: A002
        """Stores a message and lets nothing happen yet."""
        sort = MailKind.SIGNAL if kind == "signal" else MailKind.UPDATE
        mail = Mail(sort, name, id if kind == "update" else None, dump(list(args)), None, 0, self.engine.now_ms)
        await self.engine.store.send(run.id, mail)
        self.engine.wake(run.id)


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


@pytest.fixture
def failure() -> Callable[[BaseException], Any]:
    """The failure behind the error that `result()` or `update()` raised."""

    def found(error: BaseException) -> Any:
        assert error.__cause__ is not None
        return error.__cause__

    return found
