"""Which functions are marked, and what the objects made of them are."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tenuto.directives.transform import transform
from tenuto.errors import DirectiveError, NestingError, NotInWorkflowError
from tenuto.model.definitions import Step, Workflow
from tenuto.model.registry import default

Load = Callable[..., ModuleType]

RIDE = '''\
async def quote(km, rate=0.5):
    """Price of a ride."""
    "use step"
    return km * rate

async def ride(km):
    """Takes a ride."""
    "use workflow"
    return await quote(km)
'''


def codes(text: str, **options: Any) -> list[tuple[str, int, int]]:
    return [(f.code, f.line, f.column) for f in transform(text, "m.py", "step", **options).findings]


async def test_d001_a_directive_registers_a_step_without_docstring(load: Load) -> None:
    module = load('async def f(): "use step"; return 1\n')
    assert default.get("step//m.py//f") is module.f
    assert module.f.__doc__ is None
    assert await module.f() == 1


@pytest.mark.parametrize("body", ['"Doc."; "use step"', '"use step"; "Doc."'])
@pytest.mark.parametrize("mode", ["step", "client"])
def test_d002_a_docstring_may_stand_before_or_behind_the_directive(load: Load, body: str, mode: str) -> None:
    assert load(f"async def f(): {body}\n", mode).f.__doc__ == "Doc."
    stub = transform(f"async def f(): {body}\n", "m.py", "workflow").code
    assert stub is not None
    assert ast.get_docstring(stub.body[-1]) == "Doc."


@pytest.mark.parametrize(
    "text", ["'use step'", '"use step"', "'''use step'''", '"""use step"""', '("use step")', 'u"use step"']
)
def test_d003_every_way_to_quote_marks(text: str) -> None:
    assert transform(f"async def f(): {text}\n", "m.py", "step").manifest["steps"]


def test_d004_a_module_directive_may_follow_docstring_and_future_import(load: Load) -> None:
    module = load('"""Doc."""\nfrom __future__ import annotations\n"use step"\nasync def f(x: int): return x\n')
    assert module.__doc__ == "Doc."
    assert isinstance(module.f, Step)
    assert module.f.__annotations__ == {"x": "int"}


def test_d006_d007_each_late_directive_is_reported_at_its_string() -> None:
    assert codes('async def f():\n  x = 1\n  "use step"\nasync def g():\n  x = 1\n  "use step"\n') == [
        ("DIR103", 3, 3),
        ("DIR103", 6, 3),
    ]
    assert codes('async def f():\n  with x:\n    "use step"\n') == [("DIR103", 3, 5)]
    assert codes('async def f():\n  try:\n    "use step"\n  finally: pass\n') == [("DIR103", 3, 5)]


def test_d008_a_directive_behind_an_import_or_in_a_class_is_misplaced() -> None:
    assert codes('import os\n"use step"\n') == [("DIR104", 2, 1)]
    assert codes('class C:\n  "use step"\n') == [("DIR104", 2, 3)]


def test_d009_d010_contradicting_and_repeated_directives() -> None:
    assert codes('"use step"\n"use workflow"\n') == [("DIR105", 2, 1)]
    assert codes('async def f():\n  "use step"\n  "use workflow"\n') == [("DIR106", 3, 3)]
    assert codes('async def f():\n  "use step"\n  "use step"\n') == [("DIR201", 3, 3)]


@pytest.mark.parametrize("text", ['f"use step"', 'b"use step"', '"use " "step"', '"use\\x20step"', 'r"use step"'])
def test_d011_a_directive_in_another_kind_of_literal_is_an_error(text: str) -> None:
    assert [code for code, *_ in codes(f"async def f(): {text}\n")] == ["DIR109"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [("Use step.", "step"), ("use steps", "step"), ("use_step", "step"), ("USE WORKFLOW", "workflow")],
)
def test_d012_a_near_miss_is_an_error_with_the_right_suggestion(text: str, meant: str) -> None:
    (finding,) = transform(f'async def f(): "{text}"\n', "m.py", "step").findings
    assert finding.code == "DIR108"
    assert f'did you mean "use {meant}"?' in finding.message


def test_d013_a_docstring_that_begins_alike_is_left_alone() -> None:
    assert codes('async def f(): "Use step sizes below 3."\n') == []


def test_d014_optimised_python_keeps_the_marks(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "m.py").write_text('async def f(): "use step"; return 1\n')
    check = "from tenuto.directives import install; install(); import m; print(m.f.id, m.f.__doc__)"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", check], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["step//m.py//f", "None"]


async def test_d015_a_step_of_nothing_but_its_directive_returns_none(load: Load) -> None:
    assert await load('async def f(): "use step"\n').f() is None


def test_d016_a_lambda_cannot_be_marked() -> None:
    assert codes('g = lambda: "use step"\n') == [("DIR205", 1, 5)]


@pytest.mark.parametrize("mode", ["step", "client"])
async def test_d030_d034_a_step_outside_a_run_is_its_function(load: Load, mode: str) -> None:
    module = load(RIDE, mode)
    assert await module.quote(4) == 2.0
    assert str(inspect.signature(module.quote)) == "(km, rate=0.5)"
    assert module.quote.__doc__ == "Price of a ride."
    assert inspect.iscoroutinefunction(module.quote)
    assert (module.quote.__name__, module.quote.__qualname__, module.quote.__module__) == ("quote", "quote", "m")
    assert pickle.loads(pickle.dumps(module.quote)) is module.quote  # noqa: S301  # our own bytes


def test_d031_calling_a_workflow_raises_at_the_call(load: Load) -> None:
    module = load(RIDE)
    for workflow in (module.ride, module.ride.fn.__globals__["ride"]):
        with pytest.raises(NotInWorkflowError, match=r"'ride'.*app\.start"):
            workflow(3)


async def test_calling_a_workflow_in_a_workflow_raises_nesting_error(load: Load, engine: Any) -> None:
    module = load(
        'async def a(): "use workflow"\nasync def b():\n    "use workflow"\n    await a()  # tenuto: ignore[DIR401]\n'
    )
    with pytest.raises(NestingError, match="spawn"):
        await engine.run(module.b)


def test_d032_client_mode_registers_no_step(load: Load) -> None:
    module = load(RIDE, "client")
    assert default.get("step//m.py//quote") is None
    assert module.quote.id == "step//m.py//quote"
    assert default.get("workflow//m.py//ride") is module.ride


def test_d033_a_stub_called_outside_a_run_says_so(load: Load) -> None:
    view = load(RIDE).ride.fn.__globals__
    with pytest.raises(NotInWorkflowError, match="quote"):
        view["quote"](4)


def test_d034_stubs_of_the_view_look_like_the_source(load: Load) -> None:
    stub = load(RIDE).ride.fn.__globals__["quote"]
    assert str(inspect.signature(stub)) == "(km, rate=0.5)"
    assert stub.__doc__ == "Price of a ride."
    assert inspect.iscoroutinefunction(stub)


async def test_d035_tracebacks_and_getsource_show_the_users_lines(load: Load) -> None:
    module = load(RIDE.replace("km * rate", "km / 0"))
    with pytest.raises(ZeroDivisionError) as caught:
        await module.quote(1)
    last = caught.traceback[-1]
    assert (last.path.name, last.lineno + 1, last.name) == ("m.py", 4, "quote")
    assert inspect.getsource(module.quote) == "".join(RIDE.splitlines(keepends=True)[:4]).replace("km * rate", "km / 0")
    assert inspect.getsource(module.ride).startswith("async def ride(km):")
    assert module.ride.fn.__code__.co_firstlineno == 6


async def test_d036_a_wrong_call_is_a_type_error_and_no_entry(load: Load, engine: Any) -> None:
    module = load(RIDE.replace("await quote(km)", "await quote()"))
    with pytest.raises(TypeError, match="km"):
        await engine.run(module.ride, 3)
    assert engine.calls == []


async def test_d037_a_step_that_calls_a_step_is_one_entry(load: Load, engine: Any) -> None:
    text = 'async def a(): "use step"; return 1\nasync def b(): "use step"; return await a() + 1\n'
    module = load(text + 'async def w():\n    "use workflow"\n    return await b()\n')
    assert await engine.run(module.w) == 2
    assert [location for location, _ in engine.calls] == ["b"]


async def test_d038_a_step_called_through_an_unmarked_module_is_recorded(load: Load, engine: Any) -> None:
    text = 'import other\nasync def w():\n    "use workflow"\n    return await other.through(8)\n'
    module = load(
        text,
        other="import steps\nasync def through(x): return await steps.s(x)\n",
        steps='async def s(x): "use step"; return x\n',
    )
    assert await engine.run(module.w) == 8
    assert len(engine.calls) == 1


async def test_d039_a_def_step_runs_in_a_thread(load: Load, engine: Any) -> None:
    text = 'import threading\ndef cut(b): "use step"; return b[:1], threading.get_ident()\n'
    module = load(text + 'async def w():\n    "use workflow"\n    return await cut("ab")\n')
    value, thread = await engine.run(module.w)
    assert value == "a"
    assert thread != threading.get_ident()
    assert (await module.cut("ab"))[0] == "a"
    assert module.cut.fn("ab")[0] == "a"


def test_d040_strict_reports_def_steps_however_they_are_marked() -> None:
    assert codes('def f(): "use step"\n', strict=True) == [("DIR301", 1, 1)]
    assert codes("from tenuto import step\n@step\ndef f(): return 1\n", strict=True) == [("DIR301", 3, 1)]
    assert codes('def f(): "use step"\n') == []


def test_d041_d042_a_workflow_is_async_and_nothing_marked_is_a_generator() -> None:
    assert codes('def w(): "use workflow"\n') == [("DIR101", 1, 1)]
    assert codes('async def f():\n  "use step"\n  yield 1\n') == [("DIR110", 1, 1)]


def test_d043_two_marks_are_an_error_compiled_and_uncompiled() -> None:
    from tenuto import step, workflow

    assert codes('from tenuto import step\n@step\nasync def f(): "use step"\n') == [("DIR121", 2, 2)]
    assert codes("from tenuto import step, workflow\n@step\n@workflow\nasync def f(): ...\n") == [("DIR121", 3, 2)]
    with pytest.raises(DirectiveError) as caught:
        step(workflow(lambda_like))  # type: ignore[call-overload]
    assert caught.value.code == "DIR121"


async def lambda_like() -> None: ...


def test_d044_a_function_may_differ_from_its_module(load: Load) -> None:
    module = load(
        '"use step"\nfrom tenuto import workflow as _workflow\n'
        'async def a(): return 1\nasync def b():\n    "use workflow"\n    return await a()\n'
    )
    assert isinstance(module.a, Step)
    assert isinstance(module.b, Workflow)


@pytest.mark.parametrize(("options", "attempts"), [("", 3), ("@step_options(max_attempts=5)\n", 5)])
async def test_d045_attempts_are_counted_in_all(load: Load, engine: Any, options: str, attempts: int) -> None:
    head = "from tenuto import step_options\n" if options else ""
    text = (
        f'{head}{options}async def f(): "use step"; raise ValueError\n'
        f'async def w():\n    "use workflow"\n    await f()\n'
    )
    module = load(text)
    with pytest.raises(Exception, match=f"after {attempts} attempts"):
        await engine.run(module.w)
    assert engine.attempts == attempts


def test_d045_less_than_one_attempt_is_refused_when_the_step_is_defined(load: Load) -> None:
    from tenuto import step_options

    with pytest.raises(ValueError, match="max_attempts"):
        step_options(max_attempts=0)


async def test_d046_a_decorator_wraps_the_body_and_is_not_run_in_the_turn(load: Load, engine: Any) -> None:
    text = (
        "import functools\nseen = []\n"
        "def timed(fn):\n    seen.append('decorated')\n    @functools.wraps(fn)\n"
        "    async def inner(*a, **k):\n        seen.append('called')\n"
        "        return await fn(*a, **k)\n    return inner\n"
        '@timed\nasync def f(x): "use step"; return x\nasync def w():\n    "use workflow"\n    return await f(3)\n'
    )
    module = load(text)
    assert await engine.run(module.w) == 3
    assert module.seen == ["decorated", "called"]


async def test_d047_a_workflow_in_a_function_runs_once_the_function_ran(
    project: Any, engine: Any, recwarn: pytest.WarningsRecorder
) -> None:
    text = 'def make(n):\n  async def inner(x):\n    "use workflow"\n    return x + n\n  return inner\n'
    result = transform(text, "m.py", "step")
    assert [f.code for f in result.findings] == ["DIR203"]
    assert result.manifest == {}
    project({"m.py": text})
    from tenuto.directives import install

    install()
    with pytest.warns(UserWarning, match="DIR203"):
        import m  # type: ignore[import-not-found]
    assert await engine.run(m.make(2), 3) == 5


def test_d049_options_alone_do_nothing() -> None:
    assert codes("from tenuto import step_options\n@step_options(max_attempts=2)\nasync def f(): ...\n") == [
        ("DIR208", 2, 2)
    ]


async def test_steps_and_workflows_of_a_program_can_run_together(load: Load, engine: Any) -> None:
    module = load(
        'import asyncio\nasync def f(x): "use step"; return x\nasync def w():\n'
        '    "use workflow"\n    return await asyncio.gather(f(1), f(2))\n'
    )
    assert await engine.run(module.w) == [1, 2]
    assert inspect.iscoroutinefunction(module.w.fn)
