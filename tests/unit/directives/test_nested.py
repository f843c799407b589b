"""Steps inside of functions: captures, copies, and what they cannot take with them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tenuto.directives.transform import transform
from tenuto.errors import NotInWorkflowError, StepFailedError
from tenuto.model.registry import default

Load = Callable[..., ModuleType]

PACK = """\
async def pack(items, box="M"):
    "use workflow"
    async def label(text, size=len(items)):
        "use step"
        return f"{box}{size}:{text}"
    return [await label(i) for i in items]
"""


def codes(text: str) -> list[str]:
    return [finding.code for finding in transform(text, "m.py", "step").findings]


async def test_d050_captures_and_defaults_are_part_of_the_recorded_call(load: Load, engine: Any) -> None:
    module = load(PACK)
    assert await engine.run(module.pack, ["a", "b"]) == ["M2:a", "M2:b"]
    assert engine.calls == [
        ("label", [[], {"text": "a", "size": 2}, {"box": "M"}]),
        ("label#2", [[], {"text": "b", "size": 2}, {"box": "M"}]),
    ]


def test_d024_the_copy_is_registered_under_the_full_identifier(load: Load) -> None:
    module = load(PACK)
    registered = default.get("step//m.py//pack/label")
    assert registered is not None
    assert registered.fn.__qualname__ == "pack.<locals>.label"
    assert module.__tenuto_manifest__["steps"]["m.py"] == {"pack/label": {"stepId": "step//m.py//pack/label"}}


async def test_d051_each_call_gets_the_current_value_of_a_captured_variable(load: Load, engine: Any) -> None:
    module = load(
        'async def w():\n    "use workflow"\n    n = 1\n    async def s():\n        "use step"\n        return n\n'
        "    first = await s()\n    n = 2\n    return first, await s()\n"
    )
    assert await engine.run(module.w) == (1, 2)


async def test_an_unbound_capture_raises_name_error_at_the_call(load: Load, engine: Any) -> None:
    module = load(
        'async def w():\n    "use workflow"\n    async def s():\n        "use step"\n        return n\n'
        "    await s()\n    n = 2\n"
    )
    with pytest.raises(NameError, match="n"):
        await engine.run(module.w)
    assert engine.calls == []


async def test_d052_a_step_cannot_change_what_it_captured(project: Any, engine: Any) -> None:
    text = (
        'async def w():\n    "use workflow"\n    seen = []\n    async def s():\n        "use step"\n'
        "        seen.append(1)  # tenuto: ignore[DIR204]\n        return len(seen)\n    return await s(), seen\n"
    )
    assert codes(text.replace("  # tenuto: ignore[DIR204]", "")) == ["DIR204"]
    project({"m.py": text})
    from tenuto.directives import install

    install()
    import m  # type: ignore[import-not-found]

    assert await engine.run(m.w) == (1, [])


def test_d053_d054_d058_what_cannot_be_captured() -> None:
    head = 'async def w():\n    "use workflow"\n'
    step = '    async def s():\n        "use step"\n'
    assert codes(f"{head}    n = 0\n{step}        nonlocal n\n        n = 1\n") == ["DIR112"]
    assert codes(f"{head}    def h(): ...\n{step}        h()\n") == ["DIR113"]
    assert "DIR113" in codes(f"{head}    with open('x') as h:\n        pass\n{step}        h.read()\n")
    assert codes(
        "class C:\n    def m(self):\n        async def s():\n            'use step'\n            self.x\n"
    ) == ["DIR113"]
    assert codes(f"{head}    deco = print\n    @deco\n{step}") == ["DIR113"]


def test_self_of_a_serializable_class_can_be_captured() -> None:
    text = (
        "class C:\n    def __workflow_serialize__(self): return 1\n    @classmethod\n"
        "    def __workflow_deserialize__(cls, data): return cls()\n    def m(self):\n        async def s():\n"
        "            'use step'\n            return self.x\n        return s\n"
    )
    assert codes(text) == []


async def test_d055_a_step_in_an_ordinary_function_works_on_both_sides(load: Load, engine: Any) -> None:
    module = load(
        'def rounder(digits):\n    async def rounded(x):\n        "use step"\n'
        "        return round(x, digits)\n    return rounded\n"
        'async def w(x):\n    "use workflow"\n    return await rounder(1)(x)\n'
    )
    assert await module.rounder(1)(2.34) == 2.3
    assert await engine.run(module.w, 2.34) == 2.3
    assert engine.calls == [("rounded", [[], {"x": 2.34}, {"digits": 1}])]


async def test_d056_nested_steps_can_call_their_siblings_and_themselves(load: Load, engine: Any) -> None:
    module = load(
        'async def w(n):\n    "use workflow"\n    base = 10\n'
        '    async def fee(x):\n        "use step"\n        return x + base\n'
        '    async def total(k):\n        "use step"\n'
        "        return 0 if k == 0 else await fee(k) + await total(k - 1)\n"
        "    return await total(n)\n"
    )
    assert await engine.run(module.w, 2) == 23
    assert engine.calls == [("total", [[], {"k": 2}, {"base": 10}])]


FEES = """\
async def w(n):
    "use workflow"
    base = 10
    async def fee(x, rate=2, *, more=(1, -2), tags=["a"]):
        "use step"
        return x * rate + base + sum(more) + len(tags)
    async def total(k, depth=1):
        "use step"
        if depth == 0:
            return await fee(k)
        return await fee(k, 3) + await total(k, depth - 1) + await total(k, depth=0, **{})
    return await total(n), await fee(n)
"""


async def test_d056_a_sibling_and_the_step_itself_apply_literal_defaults(
    load: Load, engine: Any, crashing: Any
) -> None:
    module = load(FEES)
    # fee(5) = 5 * 2 + 10 - 1 + 1 = 20; fee(5, 3) = 25
    assert await engine.run(module.w, 5) == (25 + 20 + 20, 20)
    assert await crashing.run(module.w, 5) == (65, 20)
    assert engine.calls[1] == ("fee", [[], {"x": 5, "rate": 2, "more": (1, -2), "tags": ["a"]}, {"base": 10}])
    assert engine.calls[0] == ("total", [[], {"k": 5, "depth": 1}, {"base": 10}])


async def test_d056_a_step_of_an_ordinary_function_keeps_its_defaults_for_its_siblings(load: Load, engine: Any) -> None:
    module = load(
        "def make(base):\n    async def fee(x, rate=2):\n        'use step'\n        return x * rate + base\n"
        "    async def total(x):\n        'use step'\n        return await fee(x)\n    return total\n"
        "async def w(x):\n    'use workflow'\n    return await make(1)(x)\n"
    )
    assert await engine.run(module.w, 3) == 7
    assert await module.make(1)(3) == 7


@pytest.mark.parametrize(
    "signature",
    ["x, rate=base", "x, *, rate=base", "x, rate=[base]", "x, rate=len('ab')", "x, rate=1 + 1", "x, rate={**{}}"],
)
def test_d056_a_default_that_is_no_literal_is_refused_where_a_sibling_calls(signature: str) -> None:
    text = (
        f"async def w():\n    'use workflow'\n    base = 1\n    async def fee({signature}):\n        'use step'\n"
        "        return x * rate\n    async def total(x):\n        'use step'\n        return await fee(x)\n"
        "    return await total(3)\n"
    )
    (finding,) = transform(text, "m.py", "step").findings
    assert finding.code == "DIR113"
    assert (finding.line, finding.column) == (4, text.splitlines()[3].index("rate=") + 6)
    assert "default of rate" in finding.message
    alone = text.replace(
        "await fee(x)", "x"
    )  # nobody but the workflow calls it: the stub evaluates the default in place
    assert transform(alone, "m.py", "step").findings == ()


async def test_d057_a_traceback_shows_the_nested_step_under_its_own_name(load: Load, engine: Any) -> None:
    module = load(PACK.replace('return f"', 'raise ValueError("no"); return f"'))
    with pytest.raises(StepFailedError) as caught:
        await engine.run(module.pack, ["a"])
    cause = caught.value.__cause__
    assert cause is not None
    recorded = "\n".join(str(value) for value in vars(cause).values())
    assert 'm.py", line 5, in label\n' in recorded
    assert default.get("step//m.py//pack/label").fn.__code__.co_qualname == "pack.<locals>.label"  # type: ignore[union-attr]


def test_a_copy_called_outside_of_a_call_says_so(load: Load) -> None:
    module = load(PACK)
    with pytest.raises(NotInWorkflowError):
        module._tenuto_pack__label.fn("a", 1).send(None)


async def test_d059_an_uncompiled_nested_step_runs_inline_and_has_no_queue(engine: Any, clean_registries: None) -> None:
    from tenuto import step, workflow

    @workflow(name="nest")
    async def nest(n: int) -> int:
        @step(name="inner")
        async def inner(x: int) -> int:
            return x + n

        return await inner(1)

    assert await engine.run(nest, 2) == 3
    with pytest.raises(ValueError, match="queue"):
        step(queue="slow")(nest.fn)  # a function in a function, as any


async def test_captured_imports_are_repeated_in_the_copy(load: Load, engine: Any) -> None:
    module = load(
        'async def w(rows):\n    "use workflow"\n    import json\n    from os import sep as s\n'
        '    async def dump():\n        "use step"\n        return json.dumps(rows) + s\n    return await dump()\n'
    )
    assert await engine.run(module.w, [1]) == "[1]/"
    assert engine.calls[0][1] == [[], {}, {"rows": [1]}]


async def test_private_names_survive_leaving_their_class(load: Load, engine: Any) -> None:
    module = load(
        "class Jobs:\n    __limit = 3\n    @staticmethod\n    async def run(job):\n"
        '        "use workflow"\n        async def part(n):\n'
        '            "use step"\n            return n + Jobs.__limit\n'
        "        return await part(job) + Jobs.__limit\n"
    )
    assert await engine.run(module.Jobs.run, 1) == 7
