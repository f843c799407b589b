"""`tenuto lint`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenuto.cli import main

SHOP = """\
import time
from tenuto import step, workflow

@step
async def charge(card): ...

@workflow
async def checkout(card):
    charge(card)
    time.sleep(1)
    for tag in {"a", "b"}:
        print(tag, time.time())
    open("x")  # tenuto: ignore[DIR402]
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_decorated_workflows_are_looked_at_like_marked_ones() -> None:
    done = CliRunner().invoke(main, ["lint"])
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "shop.py:9:5: DIR407 the call of step charge is neither "
        "awaited nor kept, so it never runs (write `await charge(...)`)",
        "shop.py:10:5: DIR402 time.sleep() in a workflow blocks the worker (write `await sleep(...)`)",
        "shop.py:11:16: DIR403 iterating over a set has no fixed order (write sorted(...))",
    ]


def test_codes_can_be_selected_and_printed_as_json() -> None:
    done = CliRunner().invoke(main, ["lint", "shop.py", "--select", "DIR403", "--json"])
    assert done.exit_code == 1
    assert [finding["code"] for finding in json.loads(done.stdout)] == ["DIR403"]


def test_nothing_found_is_exit_code_zero(project: Path) -> None:
    (project / "shop.py").write_text("from tenuto import step\n@step\nasync def charge(card): ...\n")
    done = CliRunner().invoke(main, ["lint"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "1 file with marks, nothing found\n"


def test_paths_are_those_of_the_user_not_those_of_ids(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    done = CliRunner().invoke(main, ["lint", "../shop.py", "--select", "DIR403"])
    assert done.stdout.startswith("../shop.py:11:16: DIR403 ")


HELPER = """\
async def notify(customer):
    await customer.call()
"""
UNLISTED = """\
from shop.helpers import notify
from tenuto import step, wait_for_signal, workflow

@step
async def charge(card): ...

@workflow
async def checkout(name, customer):
    customer.greet()
    await charge(name)
    await wait_for_signal(name)
    await notify(customer)
"""


def test_what_prevents_names_from_being_listed_is_found_in_every_file_of_the_project(project: Path) -> None:
    """K136, DIR408"""
    package = project / "shop"
    package.mkdir()
    (project / "shop.py").unlink()
    (package / "__init__.py").touch()
    (package / "helpers.py").write_text(HELPER)
    (package / "orders.py").write_text(UNLISTED)
    done = CliRunner().invoke(main, ["lint"])
    assert done.exit_code == 1
    gist = "the names of this workflow cannot be listed, so a renamed step would run again before that is noticed"
    hint = "(write names as text; await only what can be found)"
    assert sorted(done.stdout.splitlines()) == [
        f"shop/helpers.py:2:11: DIR408 {gist}: customer.call() is awaited, and its code cannot be found {hint}",
        f"shop/orders.py:11:27: DIR408 {gist}: the name given to wait_for_signal() is computed {hint}",
    ]
    (package / "helpers.py").write_text(HELPER.replace("call()", "call()  # tenuto: ignore[DIR408]"))
    assert len(CliRunner().invoke(main, ["lint"]).stdout.splitlines()) == 1
    (package / "orders.py").write_text(UNLISTED.replace("wait_for_signal(name)", 'wait_for_signal("go")'))
    assert CliRunner().invoke(main, ["lint"]).exit_code == 0
