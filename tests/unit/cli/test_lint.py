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


MODELS = """\
from __future__ import annotations
import pathlib
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Annotated, Literal
from pydantic import BaseModel, HttpUrl
from tenuto import serializable, step, workflow

class Page(BaseModel):
    url: HttpUrl
    words: dict[str, int]

class Site(BaseModel):
    pages: list[Page]
    more: "list[Site] | None" = None

class Span:
    at: Path
    def __workflow_serialize__(self): return str(self.at)
    @classmethod
    def __workflow_deserialize__(cls, data): return cls()

@step
async def crawl(start: str) -> Site: ...

@step
async def save(page: Page, where: "pathlib.PurePath | None" = None, *rest: defaultdict[str, int]) -> Path: ...

@workflow
async def walk(kind: Literal["Path"], span: Span, seen: Annotated[OrderedDict[str, int], Path]) -> dict[str, int]: ...

async def plain(where: Path) -> Path: ...
"""


def test_annotations_whose_values_no_store_takes_are_named(project: Path) -> None:
    (project / "shop.py").write_text(MODELS)
    done = CliRunner().invoke(main, ["lint", "--select", "DIR409"])
    assert done.exit_code == 1
    lines = MODELS.splitlines()

    def place(line: int, text: str) -> str:
        return f"shop.py:{line}:{lines[line - 1].index(text) + 1}"

    assert [line.partition(" DIR409")[0].rstrip(":") for line in done.stdout.splitlines()] == [
        place(10, "HttpUrl"),
        place(27, '"pathlib.PurePath'),
        place(27, "defaultdict"),
        place(27, "Path: ..."),
        place(30, "OrderedDict"),
    ]
    assert done.stdout.splitlines()[0].endswith(
        "no store takes a value of type HttpUrl (use str, and HttpUrl where it is needed, "
        "or register it: serializable(HttpUrl, ...))"
    )


def test_a_registered_type_and_a_class_of_that_name_are_fine(project: Path) -> None:
    registered = MODELS.replace("class Page", "serializable(HttpUrl, serialize=str, deserialize=HttpUrl)\n\nclass Page")
    (project / "shop.py").write_text(registered.replace("-> Path: ...", "-> Path: ...  # tenuto: ignore[DIR409]"))
    found = CliRunner().invoke(main, ["lint", "--select", "DIR409"]).stdout
    assert "HttpUrl" not in found
    assert "type Path" not in found
    (project / "shop.py").write_text(
        "from tenuto import step\nclass Path: ...\n@step\nasync def f(x: Path, y: list[int], *z: str) -> range: ...\n"
        "range = int\n"
    )
    assert CliRunner().invoke(main, ["lint", "--select", "DIR409"]).exit_code == 0
