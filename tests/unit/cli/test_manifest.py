"""`tenuto manifest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenuto.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "shop/jobs.py": (
            'async def f(): "use step"\nasync def w(): "use workflow"\nraise RuntimeError("not importable")\n'
        ),
        "shop/deco.py": "from tenuto import step\n@step\nasync def g(): ...\n",
        ".hidden/x.py": 'async def h(): "use step"\n',
        "lib/site-packages/y.py": 'async def h(): "use step"\n',
        "env/pyvenv.cfg": "",
        "env/z.py": 'async def h(): "use step"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_d096_nothing_is_imported_and_everything_is_listed(project: Path) -> None:
    done = CliRunner().invoke(main, ["manifest"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "workflow//shop/jobs.py//w",
        "step//shop/deco.py//g",
        "step//shop/jobs.py//f",
    ]


def test_json_is_the_merged_manifest(project: Path) -> None:
    done = CliRunner().invoke(main, ["manifest", "--json"])
    assert done.stdout == (
        '{"workflows":{"shop/jobs.py":{"w":{"workflowId":"workflow//shop/jobs.py//w"}}},'
        '"steps":{"shop/deco.py":{"g":{"stepId":"step//shop/deco.py//g"}},'
        '"shop/jobs.py":{"f":{"stepId":"step//shop/jobs.py//f"}}},"version":1}\n'
    )


def test_d097_ids_that_are_gone_are_listed(project: Path) -> None:
    assert CliRunner().invoke(main, ["manifest", "--out", "old.json"]).exit_code == 0
    jobs = project / "shop" / "jobs.py"
    jobs.write_text(jobs.read_text() + 'async def added(): "use step"\n')
    done = CliRunner().invoke(main, ["manifest", "--check", "old.json"])
    assert (done.exit_code, done.stdout) == (0, "")
    jobs.write_text(jobs.read_text().replace("def f(", "def renamed("))
    done = CliRunner().invoke(main, ["manifest", "--check", "old.json"])
    assert (done.exit_code, done.stdout) == (1, "gone: step//shop/jobs.py//f\n")
    done = CliRunner().invoke(main, ["manifest", "--check", "old.json", "--json"])
    assert json.loads(done.stdout) == {"gone": ["step//shop/jobs.py//f"]}


def test_one_id_for_two_definitions_is_an_error(project: Path) -> None:
    for name in ("a", "b"):
        (project / f"{name}.py").write_text('from tenuto import step\n@step(name="pay")\nasync def f(): ...\n')
    done = CliRunner().invoke(main, ["manifest"])
    assert done.exit_code == 1
    assert "DIR502 pay is the id of a.py: f and of f" in done.stderr


def test_a_file_that_is_no_manifest_is_a_usage_error(project: Path) -> None:
    (project / "x.json").write_text("[]")
    assert CliRunner().invoke(main, ["manifest", "--check", "x.json"]).exit_code == 2
