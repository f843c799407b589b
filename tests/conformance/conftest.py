"""Every store on a clock the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch
from tenuto.codec.sealing import Encryption
from tenuto.host.classify import narrowed
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.full import widened
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Claim, Full, NewRun
from tenuto.store.results import Belonging
from tenuto.store.sealed import sealed
from tenuto.store.sqlite import SqliteStore
from tenuto.system.switches import switches

START = 1_700_000_000_000
LEASE = 30_000
AnyStore = Any  # one of the three; the driver of Postgres may not be installed


class FakeClock:
    """The store's clock: it stands still until it is set."""

    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def _anywhere(self: Belonging, run_id: str, location: str, origin: object, part: str) -> str:
    return location


@pytest.fixture(params=["memory", "sqlite", "postgres", "sealed"])
async def store(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[AnyStore]:
    opened: AnyStore
    match request.param:
        case "memory":
            opened = MemoryStore(clock)
        case "sealed":
            # These cases name tasks and rows as they like. Which results a run may open is the matter of
            # tests/security/test_travelling_results.py, with the names and histories that runs really have.
            request.getfixturevalue("monkeypatch").setattr(Belonging, "place_of", _anywhere)
            opened = sealed(
                SqliteStore(tmp_path / "tenuto.db", clock=clock, sync="normal"), Encryption({"k": b"k" * 32})
            )
        case "sqlite":
            # Whether a commit survives power loss shows nowhere here; the sync would only make the suite slow.
            opened = SqliteStore(tmp_path / "store" / "tenuto.db", clock=clock, sync="normal")
        case _:
            url = request.getfixturevalue("postgres_url")
            from tenuto.store.postgres import PostgresStore

            opened = PostgresStore(url, clock=clock)
    if switches().commits:
        opened = widened(opened)
    await opened.open()
    yield opened
    await opened.close()


class World:
    """What most cases need: workers that know one workflow and one step, and runs of them."""

    def __init__(self, store: AnyStore, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock

    async def worker(self, worker_id: str = "w", capability: str = "c") -> str:
        await self.store.register(worker_id, LEASE, capability, {"wf": "h1", "step": "h2"})
        return worker_id

    async def start(self, run_id: str = "r", **options: Any) -> None:
        assert await self.store.create(NewRun(run_id, "wf", ((b"\x15\x01", b"first"),), **options))

    async def claim(self, worker_id: str = "w") -> Claim:
        """The one run there is to claim."""
        (claim,) = await self.store.claim_runs(worker_id, ["wf"], 10)
        return claim

    async def claimed(self, worker_id: str = "w") -> list[str]:
        """The ids of what there is to claim."""
        return [claim.record.id for claim in await self.store.claim_runs(worker_id, ["wf"], 10)]

    def task(self, task_id: str = "t", **options: Any) -> EnqueueTask:
        task = EnqueueTask(
            ("pack",), task_id, "step", b"input", "default", 0, 0, None, None, 3, 100.0, 30_000.0, None, None
        )
        return task._replace(**options)

    async def status(self, run_id: str = "r") -> str:
        record = await self.store.get(run_id)
        assert record is not None
        return record.status

    async def suspended(self, run_id: str = "r", worker_id: str = "w", **options: Any) -> Claim:
        """A run that has taken its first turn and waits; the claim it had."""
        await self.start(run_id)
        (claim,) = await self.store.claim_runs(worker_id, ["wf"], 1)
        (result,) = await self.store.commit_group([narrowed(Full(claim.lease, "suspended", **options))])
        assert (result.verdict, result.kept) == ("committed", False)
        return claim

    @staticmethod
    def signal(name: str = "go", payload: bytes = b"") -> Mail:
        return Mail(MailKind.SIGNAL, name, None, payload, None, 0, START)

    @staticmethod
    def update(update_id: str, name: str = "add") -> Mail:
        return Mail(MailKind.UPDATE, name, update_id, b"\x80", None, 0, START)

    @staticmethod
    def cancel() -> Mail:
        return Mail(MailKind.CANCEL, "", None, None, None, 0, START)

    @staticmethod
    def batch(*puts: tuple[bytes, bytes], deletes: tuple[bytes, ...] = (), ranges: Any = ()) -> EncodedBatch:
        return EncodedBatch(ranges, deletes, puts)


@pytest.fixture
def world(store: AnyStore, clock: FakeClock) -> World:
    return World(store, clock)
