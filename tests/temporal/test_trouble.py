"""Bad input: no server, no namespace, no such URL, no SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tenuto import Tenuto, workflow
from tenuto.errors import ConfigError, StoreUnavailableError


async def test_a_server_that_is_not_there_is_said_to_be(unused_port: int) -> None:
    with pytest.raises(StoreUnavailableError) as unavailable:
        async with Tenuto(f"temporal://127.0.0.1:{unused_port}/default"):
            pass
    assert f"127.0.0.1:{unused_port}" in str(unavailable.value)
    assert unavailable.value.code == "TN301"


async def test_a_namespace_that_is_not_there_is_said_to_be(temporal_server: str) -> None:
    with pytest.raises(ConfigError, match="namespace create nowhere") as wrong:
        async with Tenuto(f"temporal://{temporal_server}/nowhere"):
            pass
    assert wrong.value.code == "TN221"


@pytest.mark.parametrize(
    "url",
    [
        "temporal://",
        "temporal:///namespace",
        "temporal://host:port/namespace",
        "temporal://host/one/two",
        "temporal://me:secret@host/namespace",
        "temporal://host/namespace?queue=x",
        "temporal://host/namespace?cache=many",
        "temporal://host/namespace?tls=perhaps",
    ],
)
def test_a_url_that_says_something_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Tenuto(url)


def test_an_app_without_a_store_says_so() -> None:
    with pytest.raises(ConfigError, match="Temporal"):
        Tenuto("temporal://host/namespace").store


async def test_an_app_that_is_not_open_says_so() -> None:
    with pytest.raises(ConfigError, match="not open"):
        await Tenuto("temporal://host/namespace").get("x").status()


def test_without_the_extra_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['temporalio'] = None\n"
        "from tenuto import Tenuto\n"
        "try:\n    Tenuto('temporal://host/namespace')\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ConfigError" in done.stdout
    assert "pip install 'tenuto[temporal]'" in done.stdout


def test_nothing_of_temporal_is_loaded_unless_asked_for() -> None:
    code = "import sys, tenuto; tenuto.Tenuto('memory://'); print('temporalio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@workflow
async def answers() -> int:
    return 42


async def test_a_worker_that_breaks_down_is_replaced(
    temporal_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from temporalio.worker import Worker

    run, broken = Worker.run, [True]

    async def break_down_once(worker: Worker) -> None:
        running = asyncio.create_task(run(worker))
        if broken:
            broken.clear()
            await worker.shutdown()
            await running
            raise RuntimeError("out of luck")
        await running

    monkeypatch.setattr(Worker, "run", break_down_once)
    monkeypatch.setattr("tenuto.temporal.worker.RESTART_AFTER", 0)
    async with Tenuto(f"temporal://{temporal_server}/default?task_queue=broken", queues=["default"], grace=1) as app:
        assert await (await app.start(answers)).result(timeout="30s") == 42
    assert "out of luck" in caplog.text
