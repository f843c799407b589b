"""Which names a workflow can issue: what is followed, what does not count, and what makes them unknown."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tenuto.model.registry import default
from tenuto.model.static_names import DEFAULT_NAMES, name_doubts, static_names

HEAD = """
import asyncio
import functools
import logging
from tenuto import *
log = logging.getLogger(__name__)

@step
async def charge(x):
    print("not a name")
    return x

@step(name="packed")
async def pack(x): ...

@workflow(name="kid")
async def child(): ...

"""
Import = Callable[..., ModuleType]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Writes files of a project and imports the one called `app`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("")
    before = set(sys.modules)

    def load(text: str, **others: str) -> ModuleType:
        for name, content in {**others, "app": text}.items():
            file = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        for name in set(sys.modules) - before:
            del sys.modules[name]
        importlib.invalidate_caches()
        for definition in [*default.definitions("step"), *default.definitions("workflow")]:
            if "app.py" in definition.id or definition.id in ("packed", "kid"):
                default.forget(definition.id)
        return importlib.import_module("app")

    yield load
    for name in set(sys.modules) - before:
        del sys.modules[name]
    for kind in ("step", "workflow"):
        for definition in default.definitions(kind):
            if str(getattr(definition, "__module__", "")) in ("app", "other", "shop.helpers", "shop.more"):
                default.forget(definition.id)


def names(project: Import, body: str, before: str = "", **others: str) -> frozenset[str] | None:
    """The names of a workflow with this body, the engine's own left out."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    found = static_names(project(f"{HEAD}{before}\n@workflow\nasync def w(arg, *more):\n{lines}", **others).w.fn)
    return None if found is None else found - DEFAULT_NAMES


KNOWN: list[Any] = [
    pytest.param("log.info('charging')\nawait charge(1)", {"charge"}, id="a module logger"),
    pytest.param("arg.note('x')\nawait charge(arg.total('y'))", {"charge"}, id="methods of a value"),
    pytest.param("await step('pay', lambda: arg.post())\nawait charge(1)", {"pay", "charge"}, id="a step body"),
    pytest.param("await side_effect(lambda: arg.read())", set(), id="a side effect"),
    pytest.param("await charge.options(rollback=arg.undo)(1)", {"charge"}, id="a rollback handler"),
    pytest.param("await charge.options(name='other')(1)", {"charge", "other"}, id="a step under another name"),
    pytest.param("await asyncio.gather(*map(charge, more))", {"charge"}, id="a step that is mapped"),
    pytest.param("await asyncio.gather(charge(1), pack(2))", {"charge", "packed"}, id="gather"),
    pytest.param("event = asyncio.Event()\nawait event.wait()", set(), id="an object of the standard library"),
    pytest.param(
        "async with asyncio.TaskGroup() as group:\n    group.create_task(charge(1))", {"charge"}, id="a task group"
    ),
    pytest.param("async with asyncio.timeout(1):\n    await charge(1)", {"charge"}, id="a timeout"),
    pytest.param("for pay in (charge, pack):\n    await pay(1)", {"charge", "packed"}, id="a loop over steps"),
    pytest.param("pay = charge if arg else pack\nawait pay(1)", {"charge", "packed"}, id="one of two"),
    pytest.param(
        "todo = [lambda: charge(1)]\ntodo.append(lambda: pack(1))\nawait parallel(todo)",
        {"charge", "packed"},
        id="branches in a list",
    ),
    pytest.param(
        "todo = {'a': lambda: charge(1)}\ntodo['b'] = lambda: pack(1)\nawait join(todo)",
        {"a", "b", "signal:a", "update:a", "signal:b", "update:b", "charge", "packed"},
        id="branches in a mapping",
    ),
    pytest.param(
        "async def one(n):\n    await charge(n)\n    return Break()\nawait loop('l', 0, one)", {"l", "charge"}
    ),
    pytest.param("await spawn(child)\nawait spawn(child, name='mine')", {"child:kid", "mine"}, id="a child"),
    pytest.param("h = await spawn(child)\nawait h.signal('stop')", {"child:kid", "send:stop"}, id="a child's signal"),
    pytest.param("await signal(arg, 'stop')", {"send:stop"}, id="a signal to another run"),
    pytest.param("await wait_for_signal('go', timeout=1)", {"go", "signal:go"}, id="a wait"),
    pytest.param("await Task.all([Task.run(pack, 1), Task.delay(1)])", {"packed"}, id="tasks"),
    pytest.param("patched('p')\nremoved('old', 'step')\nrollback_checkpoint('c')", {"p", "old", "c"}, id="marks"),
    pytest.param("await functools.partial(charge, 1)()", {"charge"}, id="a partial"),
    pytest.param("h = hook()\nawait (await h)\nsorted(more)\nstr(arg)", set(), id="a hook and built-ins"),
]


@pytest.mark.parametrize(("body", "expected"), KNOWN)
def test_names_are_listed_exactly(project: Import, body: str, expected: set[str]) -> None:
    """K135, kernel.md 4: what the workflow reaches, and nothing else of its module"""
    assert names(project, body) == expected


def test_a_constant_of_the_module_is_no_computed_name(project: Import) -> None:
    assert names(project, "await step(NAME, len, arg)", "NAME = 'pay'") == {"pay"}
    assert names(project, "await step(NAME, len, arg)", "NAME = 'pay' + str(1)") is None


def test_handlers_may_stand_in_a_mapping_of_the_module(project: Import) -> None:
    before = "def add(total, n): return Reply(total + n, n)\nasync def stop(total):\n    await charge(1)\n"
    before += "    return Stop(total)\nUPDATES = {'add': add}\n"
    found = names(project, "await receive(0, updates=UPDATES, signals={'stop': stop})", before)
    assert found is not None
    assert {"add", "stop", "signal:stop", "charge"} <= found
    assert "packed" not in found


def test_code_is_followed_into_other_files_of_the_project(project: Import) -> None:
    """kernel.md 4"""
    helpers = "from tenuto import step\nfrom . import more\n"
    helpers += "async def help(x):\n    await more.further(x)\n@step\nasync def mail(x): ...\n"
    more = (
        "from tenuto import sleep, step\nasync def further(x):\n    await deep(x)\n    await sleep(1, name='pause')\n"
    )
    more += "@step\nasync def deep(x): ...\n@step\nasync def unused(x): ...\n"
    files = {"shop__more": more, "shop__helpers": helpers}
    for head, call in (
        ("from shop.helpers import help", "help"),
        ("import shop.helpers", "shop.helpers.help"),
        ("from shop import helpers as h", "h.help"),
    ):
        assert names(project, f"await {call}(arg)", head, **files) == {"deep", "pause"}
    assert names(project, "await h.mail(1)", "from shop import helpers as h", **files) == {"mail"}


def test_methods_of_the_project_s_own_objects_are_followed(project: Import) -> None:
    before = "class Till:\n    async def pay(self):\n        await self._really()\n"
    before += (
        "    async def _really(self):\n        await charge(1)\n    async def other(self):\n        await pack(1)\n"
    )
    assert names(project, "till = Till()\nawait till.pay()", before) == {"charge"}
    assert names(project, "await Till().other()", before) == {"packed"}
    assert names(project, "await till.pay()", before + "till = Till()\n") == {"charge"}


def test_a_step_made_at_run_time_is_known_by_what_it_is(project: Import) -> None:
    before = "def make(name):\n    return step(name=name)(charge.fn)\nmade = make('m' + 'ade')\n"
    assert names(project, "await made(1)", before) == {"made"}


def test_what_the_workflow_does_not_reach_does_not_count(project: Import) -> None:
    """K135: a `main()` that starts the run, a step's own body"""
    before = "async def main(app):\n    run = await app.start(w)\n    await run.result()\n"
    before += "@step\nasync def call(client):\n    return await client.post('x')\n"
    assert names(project, "await call(arg)", before) == {"call"}


UNKNOWN: list[Any] = [
    ("await step(f'pay-{arg}', len)", "step", 1),
    ("await step(arg, len)", "step", 1),
    ("await sleep(1, name=arg)", "sleep", 1),
    ("await charge.options(name=arg)(1)", "computed", 1),
    ("await join({arg: lambda: charge(1)})", "join", 1),
    ("await join(arg)", "join", 1),
    ("await spawn(arg)", "workflow", 1),
    ("await sleep(1, **arg)", "options", 1),
    ("await arg.process()", "arg.process()", 1),
    ("await charge(1)\nvalue = arg.process()\nawait value", "arg.process()", 2),
    ("await asyncio.gather(charge(1), arg.process())", "arg.process()", 1),
    ("await asyncio.wait_for(arg.process(), 1)", "arg.process()", 1),
    ("async for x in arg.pages():\n    await charge(x)", "arg.pages()", 1),
    ("async with arg.session():\n    await charge(1)", "arg.session()", 1),
    ("await parallel([arg.process, lambda: charge(1)])", "arg.process", 1),
    ("await parallel([arg.process()])", "arg.process()", 1),
    ("await loop('l', 0, arg)", "arg", 1),
    ("await receive(0, signals={'s': arg.handle})", "arg.handle", 1),
    ("await Task.run(arg)", "step", 1),
    ("await outside.call(1)", "outside.call()", 1),
    ("await alias(1)", "alias()", 1),
]


@pytest.mark.parametrize(("body", "what", "line"), UNKNOWN)
def test_what_makes_names_unknown_is_said_with_its_line(project: Import, body: str, what: str, line: int) -> None:
    """K136, kernel.md 4: a computed name; an awaited call or a callable whose code cannot be found"""
    text = f"{HEAD}import click as outside\nimport other\nalias = other.helper\n"
    lines = "".join(f"    {part}\n" for part in body.splitlines())
    source = f"{text}\n@workflow\nasync def w(arg):\n{lines}"
    module = project(source, other="async def helper(x): ...\n")
    assert static_names(module.w.fn) is None
    doubts = name_doubts(module.w.fn)
    assert [doubt.line for doubt in doubts] == [source[: source.index(lines)].count("\n") + line]
    assert what in doubts[0].what
    assert doubts[0].file.endswith("app.py")


def test_a_doubt_in_a_helper_s_file_is_said_there(project: Import) -> None:
    """K136"""
    module = project(
        "from tenuto import workflow\nfrom other import help\n@workflow\nasync def w(x):\n    await help(x)\n",
        other="async def help(x):\n    await x.go()\n",
    )
    [doubt] = name_doubts(module.w.fn)
    assert (Path(doubt.file).name, doubt.line, doubt.column) == ("other.py", 2, 10)
