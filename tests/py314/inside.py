"""Runs pytest inside the interpreter that `run.mjs` loads: what needs a thread, a socket or a binary wheel is left out.

There is no thread to run a `def` step in and nothing to wait for but time, so asyncio gets a loop that sleeps where
others select, and runs at once what it is asked to run in a thread. Tasks, futures, contexts and everything else are
those of the interpreter: they are what is tested.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

PATHS = [
    "tests/unit/codec",
    "tests/unit/kernel",
    "tests/unit/model",
    "tests/unit/twf",
    "tests/unit/testing",
]

# What the interpreter has not got, by the words of what a test raises.
MISSING = re.compile(
    r"can't start new thread|emscripten does not support processes|No module named '(?!tenuto)"
    r"|encryption needs cryptography"
    r"|No such file or directory: '/lib/python314\.zip"  # it is no file: where a test reads the standard library
)
# An oracle that is loaded by hand.
WITHOUT = ["tests/unit/codec/test_keys.py"]
# What waits in a thread, or measures memory to the byte on 64 bits.
NOT_HERE = (
    "test_a_def_step_runs_in_a_thread_and_sees_its_attempt_there",
    "test_statements_of_an_activity_call_host_functions_async_ones_too",
    "test_a_run_that_stays_in_memory_does_not_grow_with_its_messages",
    "test_an_endless_activity_is_stopped_by_its_timeout",
)


class Selector:
    """Waits for time, since there is nothing else."""

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("this would wait for ever: nothing outside can wake it")
        time.sleep(max(timeout, 0))
        return []


class Loop(asyncio.base_events.BaseEventLoop):
    """asyncio's own loop without sockets, and without threads."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = Selector()

    def _process_events(self, events: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001  # as an executor does
                future.set_exception(error)

        self.call_soon(run)
        return future


def use_loop() -> None:
    """Every loop made from now on is ours."""
    asyncio.new_event_loop = asyncio.runners.events.new_event_loop = Loop  # type: ignore[assignment]
    asyncio.events.new_event_loop = Loop  # type: ignore[assignment]


def old_cbor2() -> None:
    """The last release in pure Python does not know the arguments of the reading short cut; without it our own reader
    reads everything."""
    import cbor2

    loads = cbor2.loads

    def without_short_cut(data: bytes, **options: Any) -> Any:
        if "semantic_decoders" in options:
            raise cbor2.CBORDecodeValueError("no short cut here")
        return loads(data)

    cbor2.loads = without_short_cut
    for name in ("CBORError", "SemanticDecoderCallback"):
        if not hasattr(cbor2, name):
            setattr(cbor2, name, getattr(cbor2, name, cbor2.CBORDecodeError))


class Report:
    """Counts, and leaves out what cannot be run here."""

    def __init__(self) -> None:
        self.passed = self.failed = self.missing = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report: pytest.TestReport = yield
        if call.excinfo is not None and report.failed and MISSING.search(str(call.excinfo.value)):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value}")
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        report: pytest.CollectReport = yield
        if report.failed and MISSING.search(str(report.longrepr)):
            report.outcome = "skipped"
            report.longrepr = (str(collector.path), 0, f"Skipped: {str(report.longrepr).splitlines()[-1]}")
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not item.name.startswith(NOT_HERE)]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.passed and report.when == "call":
            self.passed += 1
        elif report.failed:
            self.failed += 1


def main(arguments: list[str]) -> int:
    """Runs the tests; the last line says how many passed."""
    os.chdir("/repository")
    asyncio._set_running_loop(None)  # that of the JavaScript around us
    use_loop()
    old_cbor2()
    report = Report()
    paths = [argument for argument in arguments if argument.startswith("tests/")] or PATHS
    options = [argument for argument in arguments if not argument.startswith("tests/")]
    options += [f"--ignore={path}" for path in WITHOUT]
    code = pytest.main(["-q", "-rfEs", "-p", "tenuto.testing.plugin", *options, *paths], plugins=[report])
    print(f"on {sys.version.split()[0]} {sys.platform}: {report.passed} passed, {report.failed} failed")  # noqa: T201  # what the caller reads
    return int(code)
