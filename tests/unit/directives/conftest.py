"""Shared pieces of the directive tests: the folder of cases, and projects made on the fly."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import pytest

from tenuto.codec import classes
from tenuto.codec.values import load as decode
from tenuto.directives.importer import DirectiveFinder, install
from tenuto.errors import RunFailedError
from tenuto.host.history import history_of
from tenuto.kernel.location import text as location_text
from tenuto.kernel.records import Step as StepRecord
from tenuto.model import compiled, ids, view
from tenuto.model.registry import default
from tenuto.testing.engine import Engine

CASES = Path(__file__).parent / "cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-cases", action="store_true", help="rewrite the expected outputs of the compiler's cases")


@pytest.fixture
def clean_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions of one test are not those of the next."""
    monkeypatch.setattr(default, "_by_id", {})
    monkeypatch.setattr(classes, "_by_id", {})
    monkeypatch.setattr(classes, "_ids", {})
    monkeypatch.setattr(compiled, "_lines", {})
    monkeypatch.setattr(view, "_views", {})


Project = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_registries: None) -> Iterator[Project]:
    """Write files into an importable folder that is a project of its own; the hook is not installed."""
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    before = set(sys.modules)
    meta_path = list(sys.meta_path)

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return tmp_path

    yield write
    sys.meta_path[:] = meta_path
    ids.use_root(None)
    ids.use_packages(())
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)) or not file:
            del sys.modules[name]


@pytest.fixture
def load(project: Project) -> Callable[..., ModuleType]:
    """Import one module `m` with the hook installed, from the text given."""

    def importing(text: str, mode: str = "step", **others: str) -> ModuleType:
        project({"m.py": text, **{f"{name}.py": body for name, body in others.items()}})
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, DirectiveFinder)]
        install(mode=mode)  # type: ignore[arg-type]
        return importlib.import_module("m")

    return importing


class Runs:
    """The test engine, with what these tests ask for: a workflow's value, and its recorded calls."""

    def __init__(self, *, crash_everywhere: bool = False) -> None:
        self.engine = Engine(crash_everywhere=crash_everywhere)
        self.calls: list[tuple[str, Any]] = []  # location of each step, its decoded call
        self.attempts = 0

    async def run(self, workflow: Any, *args: Any, **kwargs: Any) -> Any:
        """The value of a run, or what it raised."""
        if isinstance(workflow, MethodType):
            workflow, args = workflow.__func__, (workflow.__self__, *args)
        run = await self.engine.start(workflow.bind(*args, **kwargs))
        try:
            return await run.result()
        except RunFailedError as error:
            failure = error.__cause__ or error
        finally:
            await self._look(run.id)
        raise failure

    async def _look(self, run_id: str) -> None:
        rows = await self.engine.rows(run_id)
        self.attempts = sum(entry.attempts for entry in history_of(rows))
        for location, entry in sorted(rows.history, key=lambda item: item[1].seq):
            if isinstance(entry.kind, StepRecord) and entry.kind.input is not None:
                self.calls.append((location_text(location), decode(entry.kind.input)))


@pytest.fixture
def engine() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.engine.close()


@pytest.fixture
def crashing(engine: Runs) -> Iterator[Runs]:
    """An engine that rebuilds every run from what was committed, after every turn."""
    runs = Runs(crash_everywhere=True)
    yield runs
    runs.engine.close()
