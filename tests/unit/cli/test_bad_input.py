"""Hostile ids, values and numbers: one message and an exit code, never a traceback or a page of echo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tenuto.model.registry import default

APP = """
from tenuto import workflow

@workflow(name="bad_input")
async def nothing(n: int = 0) -> None: ...
"""


@pytest.fixture
def shell(tenuto: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad_input_app.py").write_text(APP)
    default.forget("bad_input")  # of the case before
    done = tenuto("start", "bad_input", "1", "--id", "r", "--app", "bad_input_app.py")
    assert done.exit_code == 0, done.output
    return tenuto


@pytest.mark.parametrize(
    "words",
    [
        ("show", "\udcff"),
        ("explain", ""),
        ("signal", "r", "\udcff"),
        ("signal", "r", "go", "[" * 100_000),
        ("signal", "r", "go", "9" * 5_000),
        ("signal", "r", "go", "x" * 5_000),
        ("supply", "r", "a", "[" * 100_000),
        ("start", "bad_input", "1", "--app", "bad_input_app.py", "--priority", "9" * 30),
        ("start", "bad_input", "1", "--app", "bad_input_app.py", "--attribute", "a=NaN"),
        ("start", "bad_input", "1", "--app", "bad_input_app.py", "--attribute", "a=1e999"),
        ("start", "bad_input", "1", "--app", "bad_input_app.py", "--id", "\udcff"),
        ("rewind", "r", "--to", "///"),
        ("cancel", "r", "--within", "9" * 30 + "d"),
        ("runs", "--since", "9" * 30 + "d"),
        ("runs", "--status", "nope"),
        ("runs", "--attribute", "a"),
        ("runs", "--url", "sqlite:///x.db?sync=%00"),
    ],
)
def test_bad_input_is_one_short_message(words: tuple[str, ...], shell: Callable[..., Result]) -> None:
    done = shell(*words)
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert len(done.output) < 1_000


@pytest.mark.parametrize("words", [("runs", "--limit", "9" * 30), ("runs", "--workflow", "x" * 3_000)])
def test_what_is_only_unusual_is_answered(words: tuple[str, ...], shell: Callable[..., Result]) -> None:
    assert shell(*words).exit_code == 0
