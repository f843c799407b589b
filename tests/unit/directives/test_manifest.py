"""The manifest, and that directives and decorators are two ways to say the same."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tenuto.directives.manifest import dump, gone, merge
from tenuto.directives.transform import MODES, Mode, render, transform

CASES = Path(__file__).parent / "cases"
SAMPLES = (
    "plain",
    "nested_hoisted_closure",
    "closure_in_ordinary_function",
    "module_level_step",
    "static_and_class_methods",
    "custom_serialization",
    "conditional_definitions",
    "async_with",
    "parameters_and_decorators",
    "captures_of_every_sort",
    "sync_step",
    "static_workflow_method",
)


def test_d023_the_plain_sample_has_exactly_this_manifest_line() -> None:
    text = render(transform((CASES / "plain" / "input.py").read_text(), "m.py", "step"))
    assert text.splitlines()[0] == (
        '#__internal_workflows{"workflows":{"m.py":{"ride":{"workflowId":"workflow//m.py//ride"}}},'
        '"steps":{"m.py":{"quote":{"stepId":"step//m.py//quote"}}}}'
    )


def test_d005_the_manifest_follows_shebang_and_cookie() -> None:
    lines = render(transform((CASES / "module_level_workflow" / "input.py").read_bytes(), "m.py", "step")).splitlines()
    assert lines[0].startswith("#!")
    assert "coding" in lines[1]
    assert lines[2].startswith("#__internal_workflows{")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SAMPLES)
def test_d025_decorators_instead_of_directives_give_the_same_output(name: str, mode: Mode) -> None:
    source = (CASES / name / "input.py").read_text()
    directives = transform(source, "m.py", mode)
    decorators = transform(with_decorators(source), "m.py", mode)
    assert decorators.manifest == directives.manifest
    assert comparable(decorators.code) == comparable(directives.code)


def with_decorators(source: str) -> str:
    """The same module, marked by `@step` and `@workflow`."""
    tree = ast.parse(source)
    module_kind = next((k for k in map(_directive, tree.body[:3]) if k), None)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        kind = next((k for k in map(_directive, node.body[:3]) if k), None)
        if (
            kind is None
            and node in tree.body
            and not node.name.startswith("_")
            and isinstance(node, ast.AsyncFunctionDef)
        ):
            kind = module_kind
        if kind is not None:
            node.body = [s for s in node.body if not _directive(s)] or [ast.Pass()]
            _decorate(node, kind)
    tree.body = [s for s in tree.body if not _directive(s)]
    future = [s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    index = tree.body.index(future[-1]) + 1 if future else (1 if ast.get_docstring(tree) else 0)
    tree.body.insert(index, ast.parse("from tenuto import step, workflow").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _directive(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Expr(value=ast.Constant(value="use step" | "use workflow" as text)):
            return str(text).removeprefix("use ")
        case _:
            return None


def _decorate(node: ast.FunctionDef | ast.AsyncFunctionDef, kind: str) -> None:
    mark: ast.expr = ast.Name(kind, ast.Load())
    kept: list[ast.expr] = []
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "step_options":
            mark = ast.Call(mark, [], decorator.keywords)
        else:
            kept.append(decorator)
    binders = [d for d in kept if ast.unparse(d) in ("staticmethod", "classmethod")]
    node.decorator_list = [*binders, mark, *(d for d in kept if d not in binders)]


def comparable(tree: ast.Module | None) -> str:
    """The output without what differs by necessity: the import of the marks, and line numbers."""
    assert tree is not None
    tree.body = [s for s in tree.body if not (isinstance(s, ast.ImportFrom) and s.module == "tenuto")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [k for k in node.keywords if k.arg != "line"]
    return ast.unparse(tree)


def test_d026_d027_d028_what_has_no_entry() -> None:
    checking = 'from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  async def f(): "use step"\n'
    assert transform(checking, "m.py", "step").manifest == {}
    nested = 'async def a():\n  "use step"\n  async def b(): "use step"\n'
    assert list(transform(nested, "m.py", "step").manifest["steps"]["m.py"]) == ["a"]
    static = 'class C:\n  @staticmethod\n  async def f(): "use {}"\n'
    assert "classes" in transform(static.format("step"), "m.py", "step").manifest
    assert "classes" not in transform(static.format("workflow"), "m.py", "step").manifest


@pytest.mark.parametrize("mark", ['@step(name="pay")', '@step_options(name="pay")'])
def test_d029_a_name_replaces_the_id_in_the_manifest(mark: str, load: Any) -> None:
    directive = '"use step"; ' if "options" in mark else ""
    text = f"from tenuto import step, step_options\n{mark}\nasync def f(): {directive}return 1\n"
    assert transform(text, "m.py", "step").manifest == {"steps": {"m.py": {"f": {"stepId": "pay"}}}}
    module = load(text)
    assert module.f.id == module.f.name == "pay"
    computed = transform(text.replace('"pay"', "NAME"), "m.py", "step")
    assert computed.manifest == {}
    assert [finding.code for finding in computed.findings] == ["DIR209"]


def test_manifests_merge_in_order_and_know_what_is_gone() -> None:
    one = transform('async def f(): "use step"\n', "b.py", "step").manifest
    two = transform('async def w(): "use workflow"\n', "a.py", "step").manifest
    both = merge([one, two])
    assert list(both) == ["workflows", "steps"]
    assert dump(both, version=1).endswith(',"version":1}')
    assert gone(both, two) == ("step//b.py//f",)
    assert gone(two, both) == ()


def test_valid_definitions_stay_in_the_manifest_beside_broken_ones() -> None:
    result = transform('async def good(): "use step"\ndef bad(): "use workflow"\n', "m.py", "step")
    assert result.code is None
    assert result.manifest == {"steps": {"m.py": {"good": {"stepId": "step//m.py//good"}}}}


def test_d119_a_source_without_a_path_has_no_ids() -> None:
    assert [f.code for f in transform('async def f(): "use step"\n', "<stdin>", "step").findings] == ["DIR119"]
