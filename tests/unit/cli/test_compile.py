"""`tenuto compile`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenuto.cli import main

GOOD = 'async def f(): "use step"; return 1\n'
BAD = 'x = 1\ndef w(): "use workflow"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    return tmp_path


def test_the_output_goes_to_stdout(project: Path) -> None:
    done = CliRunner().invoke(main, ["compile", "good.py"])
    assert done.exit_code == 0
    assert done.stdout == (
        '#__internal_workflows{"steps":{"good.py":{"f":{"stepId":"step//good.py//f"}}}}\n'
        "from tenuto.model import compiled as __tenuto__\n\n"
        "@__tenuto__.step('step//good.py//f')\nasync def f():\n    return 1\n"
    )


def test_d095_an_error_leaves_stdout_empty_and_is_a_line_on_stderr(project: Path) -> None:
    done = CliRunner().invoke(main, ["compile", "bad.py", "--mode", "workflow"])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr == "bad.py:2:1: DIR101 workflow w must be `async def` (write `async def w`)\n"


def test_checking_a_folder_prints_findings_only(project: Path) -> None:
    done = CliRunner().invoke(main, ["compile", ".", "--check"])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    (project / "bad.py").unlink()
    assert CliRunner().invoke(main, ["compile", ".", "--check"]).exit_code == 0


def test_strict_is_an_option(project: Path) -> None:
    (project / "sync.py").write_text('def f(): "use step"\n')
    assert CliRunner().invoke(main, ["compile", "sync.py", "--check"]).exit_code == 0
    done = CliRunner().invoke(main, ["compile", "sync.py", "--check", "--strict"])
    assert done.exit_code == 1
    assert "DIR301" in done.stderr


def test_out_writes_every_mode_and_the_manifest(project: Path) -> None:
    (project / "bad.py").unlink()
    done = CliRunner().invoke(main, ["compile", ".", "--out", "build"])
    assert done.exit_code == 0, done.output
    for mode, word in (("step", "step"), ("workflow", "remote_step"), ("client", "local_step")):
        assert f"@__tenuto__.{word}(" in (project / "build" / mode / "good.py").read_text()
    assert json.loads((project / "build" / "manifest.json").read_text())["version"] == 1


def test_json_has_findings_manifest_and_code(project: Path) -> None:
    done = CliRunner().invoke(main, ["compile", "bad.py", "--json"])
    data = json.loads(done.stdout)
    assert done.exit_code == 1
    assert data["code"] == ""
    assert data["findings"][0]["code"] == "DIR101"
    assert data["findings"][0]["endColumn"] == 6


def test_what_is_not_python_is_reported_like_a_finding(project: Path) -> None:
    (project / "broken.py").write_text('"use step"\ndef f(:\n')
    done = CliRunner().invoke(main, ["compile", "broken.py"])
    assert done.exit_code == 1
    assert done.stderr.startswith("broken.py:2:7: syntax ")


def test_a_folder_without_check_is_a_usage_error(project: Path) -> None:
    assert CliRunner().invoke(main, ["compile", "."]).exit_code == 2
    assert CliRunner().invoke(main, ["compile", "nowhere.py"]).exit_code == 2


def test_root_changes_the_paths_of_ids(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "m.py").write_text(GOOD)
    assert "step//src/m.py//f" in CliRunner().invoke(main, ["compile", "src/m.py"]).stdout
    assert "step//m.py//f" in CliRunner().invoke(main, ["compile", "src/m.py", "--root", "src"]).stdout
    CliRunner().invoke(main, ["compile", "src/m.py"])
