"""Marked modules, methods, classes, conditional definitions, and how calls are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tenuto.codec import classes
from tenuto.codec.values import dump
from tenuto.codec.values import load as decode
from tenuto.directives.transform import transform
from tenuto.model.definitions import Step
from tenuto.model.marking import startable
from tenuto.model.registry import default

Load = Callable[..., ModuleType]

STOCK = (
    '"""Stock."""\nfrom __future__ import annotations\n"use step"\nLIMIT = 10\n'
    "async def reserve(sku, n): return _clamp(n)\ndef _clamp(n): return min(n, LIMIT)\n"
)
MAILER = """\
class Mailer:
    @staticmethod
    async def send(to):
        "use step"
        return f"sent {to}"
    @classmethod
    async def digest(cls, day):
        "use workflow"
        return await cls.send(day)
"""
SPAN = """\
class Span:
    def __init__(self, lo, hi): self.lo, self.hi = lo, hi
    def __workflow_serialize__(self): return [self.lo, self.hi]
    @classmethod
    def __workflow_deserialize__(cls, data): return cls(*data)
"""


def codes(text: str, **options: Any) -> list[str]:
    return [finding.code for finding in transform(text, "m.py", "step", **options).findings]


async def test_d060_a_marked_module_marks_its_exports_only(load: Load) -> None:
    module = load(STOCK)
    assert isinstance(module.reserve, Step)
    assert not isinstance(module._clamp, Step)
    assert await module.reserve("x", 99) == 10
    assert module.__doc__ == "Stock."


@pytest.mark.parametrize("line", ["def f(): ...", "class C: ...", "from os import *", "import json as json"])
def test_d061_a_marked_module_exports_nothing_else(line: str) -> None:
    assert codes(f'"use step"\n{line}\n') == ["DIR107"]


def test_overloads_in_a_marked_module_are_left_to_the_type_checker() -> None:
    text = (
        '"use step"\nfrom typing import overload as _overload\nimport typing as _typing\n'
        "@_typing.overload\nasync def f(x: int) -> int: ...\n@_typing.overload\nasync def f(x: str) -> str: ...\n"
        "async def f(x): return x\n"
    )
    assert codes(text) == []


def test_d062_strict_reports_public_constants() -> None:
    (finding,) = transform(STOCK, "m.py", "step", strict=True).findings
    assert (finding.code, finding.line, finding.column, finding.end_column) == ("DIR302", 4, 1, 11)


def test_d063_an_unknown_name_in_all_is_reported_at_its_string() -> None:
    (finding,) = transform('"use step"\n__all__ = ["a", "b"]\nasync def a(): ...\n', "m.py", "step").findings
    assert (finding.code, finding.line, finding.column) == ("DIR107", 2, 17)


async def test_d064_a_class_method_workflow_gets_its_class(load: Load, engine: Any) -> None:
    module = load(MAILER.replace("return await cls.send(day)", "assert cls is Mailer; return await cls.send(day)"))
    assert await engine.run(module.Mailer.digest, "mon") == "sent mon"
    assert default.get("workflow//m.py//Mailer.digest").fn.__qualname__ == "Mailer.digest"  # type: ignore[union-attr]
    assert await module.Mailer.send("x") == "sent x"


def test_what_can_be_started_is_a_workflow_or_a_class_method_that_is_one(load: Load) -> None:
    module = load(MAILER + "async def w():\n    'use workflow'\n")
    assert startable(module.Mailer.digest, ("mon",))[1] == (module.Mailer, "mon")
    assert startable(module.w, (1,)) == (module.w, (1,))
    with pytest.raises(TypeError, match="no workflow"):
        startable(module.Mailer.send, ())
    with pytest.raises(TypeError, match="no workflow"):
        startable(3, ())


async def test_a_class_method_step_gets_its_class_by_reference(load: Load, engine: Any) -> None:
    module = load(
        "class Box:\n    size = 3\n    @classmethod\n    async def grow(cls, n):\n"
        '        "use step"\n        return cls.size + n\n'
        'async def w():\n    "use workflow"\n    return await Box.grow(2)\n'
    )
    assert await engine.run(module.w) == 5
    assert await module.Box.grow(1) == 4


def test_d065_only_static_and_class_methods_can_be_marked() -> None:
    assert codes('class C:\n  async def m(self): "use step"\n') == ["DIR102"]
    assert codes('class C:\n  @property\n  def p(self): "use step"\n') == ["DIR116"]
    assert codes('class C:\n  @classmethod\n  async def m(cls): "use step"\n', strict=True) == ["DIR303"]


def test_d066_marks_that_have_no_place() -> None:
    assert codes('def f():\n  class C:\n    @staticmethod\n    async def m(): "use step"\n') == ["DIR114"]
    assert codes('class C:\n  @staticmethod\n  async def m():\n    "use step"\n    super()\n') == ["DIR111"]
    assert codes('from typing import overload\n@overload\nasync def f(): "use step"\n') == ["DIR117"]


async def test_d067_objects_of_a_serializable_class_go_everywhere(load: Load, engine: Any) -> None:
    module = load(
        SPAN + 'async def wider(span):\n    "use step"\n    return Span(span.lo - 1, span.hi + 1)\n'
        'async def w(span):\n    "use workflow"\n    assert isinstance(span, Span)\n    return await wider(span)\n'
    )
    result = await engine.run(module.w, module.Span(1, 2))
    assert type(result) is module.Span
    assert (result.lo, result.hi) == (0, 3)
    assert module.w.fn.__globals__["Span"] is module.Span


def test_d068_both_methods_are_needed() -> None:
    assert codes("class C:\n  def __workflow_serialize__(self): ...\n") == ["DIR118"]
    assert codes("class C:\n  @classmethod\n  def __workflow_deserialize__(cls, d): ...\n") == ["DIR118"]


def test_d068_a_foreign_class_makes_the_round_trip(load: Load) -> None:
    module = load(
        "from fractions import Fraction\nfrom tenuto import serializable\n"
        "Ratio = serializable(Fraction, serialize=str, deserialize=Fraction)\n"
    )
    assert module.__tenuto_manifest__["classes"] == {"m.py": {"Ratio": {"classId": "class//m.py//Ratio"}}}
    assert decode(dump(module.Ratio(1, 3))) == module.Ratio(1, 3)


def test_d069_a_file_with_only_a_class_is_compiled_in_client_mode(load: Load) -> None:
    module = load(SPAN + "Alias = Span\n", "client")
    assert module.__tenuto_manifest__ == {"classes": {"m.py": {"Span": {"classId": "class//m.py//Span"}}}}
    assert decode(dump(module.Span(1, 2))).hi == 2


@pytest.mark.parametrize("has_library", [True, False])
async def test_d070_the_branch_that_ran_is_the_one_registered(load: Load, engine: Any, has_library: bool) -> None:
    text = (
        "try:\n    import fastpdf\nexcept ImportError:\n"
        '    async def render(doc): "use step"; return doc.upper()\n'
        'else:\n    async def render(doc): "use step"; return fastpdf.render(doc)\n'
        'async def w(doc):\n    "use workflow"\n    return await render(doc)\n'
    )
    module = load(text, **({"fastpdf": "def render(doc): return 'fast ' + doc\n"} if has_library else {}))
    assert list(module.__tenuto_manifest__["steps"]["m.py"]) == ["render"]
    assert await engine.run(module.w, "a") == ("fast a" if has_library else "A")


async def test_a_definition_in_a_branch_that_did_not_run_leaves_the_hosts_object(load: Load, engine: Any) -> None:
    module = load(
        "try:\n    from other import render\nexcept ImportError:\n"
        '    async def render(doc): "use step"; return "own"\n'
        'async def w():\n    "use workflow"\n    return await render("x")\n',
        other='async def render(doc): "use step"; return "others " + doc\n',
    )
    assert await engine.run(module.w) == "others x"
    assert module.render.id == "step//other.py//render"


async def test_of_two_conditional_workflows_the_one_that_the_host_ran_has_the_body(load: Load, engine: Any) -> None:
    module = load(
        'import sys\nif sys.platform == "nowhere":\n    async def w():\n        "use workflow"\n        return 1\n'
        'else:\n    async def w():\n        "use workflow"\n        return 2\n'
    )
    assert sys.platform != "nowhere"
    assert await engine.run(module.w) == 2


def test_d071_marks_in_loops_and_under_the_main_guard() -> None:
    assert codes('for _ in ():\n  async def f(): "use step"\n') == ["DIR120"]
    assert codes('if __name__ == "__main__":\n  async def f(): "use step"\n') == ["DIR120"]


def test_d072_one_name_cannot_be_step_here_and_workflow_there() -> None:
    (finding,) = transform(
        'if 1:\n  async def f(): "use step"\nelse:\n  async def f(): "use workflow"\n', "m.py", "step"
    ).findings
    assert finding.code == "DIR115"
    assert [place.line for place in finding.related] == [2]


BOOK = """\
AISLE = False
async def book(seat, /, row, *extras, aisle=AISLE, **meta):
    "use step"
    return [seat, row, extras, aisle, meta]
async def w(how):
    "use workflow"
    if how == "positional":
        return await book(1, 2)
    if how == "named":
        return await book(1, row=2)
    return await book(1, 2, 3, note="x", aisle=True)
"""


async def test_d073_equal_calls_are_recorded_equally(load: Load, engine: Any) -> None:
    module = load(BOOK)
    for how in ("positional", "named"):
        assert await engine.run(module.w, how) == [1, 2, (), False, {}]
    assert engine.calls[0] == engine.calls[1] == ("book", [[1], {"row": 2}])
    assert await engine.run(module.w, "all") == [1, 2, (3,), True, {"note": "x"}]
    assert engine.calls[2][1] == [[1, 2, 3], {"aisle": True, "note": "x"}]


async def test_d074_a_parameter_with_a_default_can_be_added_while_runs_are_open(load: Load, engine: Any) -> None:
    text = (
        'from tenuto import sleep\nasync def s(a): "use step"; return a\n'
        'async def w():\n    "use workflow"\n    first = await s(1)\n'
        '    await sleep("1h")\n    return first, await s(2)\n'
    )
    run = await engine.engine.start(load(text).w)
    await engine.engine.settle()
    del sys.modules["m"]
    module = load(text.replace("(a)", "(a, b=2)").replace("return a", "return a + b"))
    engine.engine.reload(module.w)
    assert await run.result() == (1, 4)


FAMILY = """\
class Base:
    rate = 2
    @classmethod
    async def price(cls, km):
        "use workflow"
        async def priced(km):
            "use step"
            return km * cls.rate, cls.__name__
        return await priced(km)
    @classmethod
    async def cost(cls, km):
        "use step"
        return km * cls.rate
    @classmethod
    async def total(cls, km):
        "use workflow"
        return await cls.cost(km)

class Taxi(Base):
    rate = 3

class Luxury(Taxi):
    rate = 5
    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        cls.options = options

class Gold(Luxury, colour="gold"):
    rate = 7

class Outer:
    class Base:
        @classmethod
        async def name(cls):
            "use workflow"
            return cls.__qualname__
    class Below(Base): ...
"""


async def test_the_class_of_a_class_method_travels_to_its_nested_steps(load: Load, engine: Any, crashing: Any) -> None:
    module = load(FAMILY)
    for runs in (engine, crashing):
        assert await runs.run(module.Base.price, 4) == (8, "Base")


@pytest.mark.parametrize(("name", "rate"), [("Taxi", 3), ("Luxury", 5), ("Gold", 7)])
async def test_an_inherited_class_method_is_started_on_the_subclass(
    load: Load, engine: Any, name: str, rate: int
) -> None:
    module = load(FAMILY)
    cls = getattr(module, name)
    assert await engine.run(cls.price, 10) == (10 * rate, name)
    assert await engine.run(cls.total, 10) == 10 * rate
    assert module.Gold.options == {"colour": "gold"}


async def test_classes_inside_of_classes_inherit_too(load: Load, engine: Any) -> None:
    module = load(FAMILY)
    assert await engine.run(module.Outer.Below.name) == "Outer.Below"


async def test_a_subclass_of_another_module_has_the_id_of_its_own_place(load: Load, engine: Any) -> None:
    module = load(FAMILY, other="import m\nclass Bus(m.Base):\n    rate = 1\n")
    import other  # type: ignore[import-not-found]

    assert await engine.run(other.Bus.price, 4) == (4, "Bus")
    assert classes._ids[other.Bus] == "class//other.py//Bus"
    assert classes._ids[module.Taxi] == "class//m.py//Taxi"


def test_the_class_of_an_unregistered_method_does_not_travel() -> None:
    text = (
        "class C:\n    @classmethod\n    def make(cls):\n        async def s():\n            'use step'\n"
        "            return cls.x\n        return s\n"
    )
    assert [finding.code for finding in transform(text, "m.py", "step").findings] == ["DIR113"]
