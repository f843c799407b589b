"""Every construct and every finding of the compiler, as a folder of input and expected output."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tenuto.directives import install
from tenuto.directives.errors import CODES, describe
from tenuto.directives.transform import MODES, Mode, Result, render, transform
from tenuto.errors import DirectiveError
from tenuto.model.registry import default

CASES = Path(__file__).parent / "cases"
NAMES = sorted(folder.name for folder in CASES.iterdir())
RUN_TIME_CODES = {
    "DIR119",
    "DIR122",
    "DIR210",
    "DIR211",
    "DIR408",
    "DIR409",
}  # shown by tests of their own: no source says them


def compile_case(name: str, mode: Mode) -> Result:
    return transform((CASES / name / "input.py").read_bytes(), "input.py", mode, strict="strict" in name)


def findings_text(result: Result) -> str:
    return "".join(f"{describe(finding)}\n" for finding in result.findings)


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if request.config.getoption("--update-cases", default=False):
        _update(name)
    return name


def _update(name: str) -> None:
    folder = CASES / name
    for mode in MODES:
        result = compile_case(name, mode)
        target = folder / f"{mode}.py"
        if result.code is None:
            target.unlink(missing_ok=True)
        else:
            target.write_text(render(result), encoding="utf-8")
        (folder / "findings.txt").write_text(findings_text(result), encoding="utf-8")
        (folder / "manifest.json").write_text(json.dumps(result.manifest, indent=1) + "\n", encoding="utf-8")


def test_each_mode_emits_what_the_case_expects(case: str) -> None:
    for mode in MODES:
        result = compile_case(case, mode)
        expected = CASES / case / f"{mode}.py"
        assert (result.code is not None) == expected.exists()
        if result.code is not None:
            assert ast.dump(ast.parse(render(result))) == ast.dump(ast.parse(expected.read_bytes()))


def test_findings_and_manifest_are_those_expected_and_equal_in_every_mode(case: str) -> None:
    for mode in MODES:
        result = compile_case(case, mode)
        assert findings_text(result) == (CASES / case / "findings.txt").read_text(encoding="utf-8")
        assert result.manifest == json.loads((CASES / case / "manifest.json").read_text(encoding="utf-8"))


def test_d048_compiling_twice_gives_the_same_bytes(case: str) -> None:
    for mode in MODES:
        first, second = compile_case(case, mode), compile_case(case, mode)
        assert render(first) == render(second)
        assert first.findings == second.findings


def test_every_emitted_tree_can_be_compiled(case: str) -> None:
    for mode in MODES:
        code = compile_case(case, mode).code
        if code is not None:
            compile(copy.deepcopy(code), "input.py", "exec", dont_inherit=True)
            compile(ast.parse(ast.unparse(code)), "input.py", "exec", dont_inherit=True)


def test_no_position_of_the_output_lies_outside_of_the_source(case: str) -> None:
    lines = (CASES / case / "input.py").read_text(encoding="utf-8").splitlines()
    for mode in MODES:
        code = compile_case(case, mode).code
        for node in ast.walk(code) if code is not None else ():
            if isinstance(node, ast.expr | ast.stmt):
                assert 1 <= node.lineno <= node.end_lineno <= max(1, len(lines))  # type: ignore[operator]


def test_every_code_of_the_compiler_has_a_case() -> None:
    seen = {
        line.split(": ")[1].split()[0]
        for name in NAMES
        for line in (CASES / name / "findings.txt").read_text(encoding="utf-8").splitlines()
    }
    assert set(CODES) - RUN_TIME_CODES == seen


def test_every_case_can_be_imported_or_fails_to_with_its_first_code(case: str, project: Any) -> None:
    result = compile_case(case, "step")
    project({"input.py": (CASES / case / "input.py").read_text(encoding="utf-8")})
    install()
    if result.code is None and "strict" not in case:
        with pytest.raises(DirectiveError) as caught:
            importlib.import_module("input")
        assert caught.value.code == next(f.code for f in result.findings if f.level == "error")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        module = importlib.import_module("input")
    listed = {**result.manifest.get("workflows", {}), **result.manifest.get("steps", {})}
    if listed:
        assert module.__tenuto_manifest__ == result.manifest
    for entry in (
        entry
        for section in ("workflows", "steps")
        for entry in result.manifest.get(section, {}).get("input.py", {}).values()
    ):
        (identity,) = entry.values()
        definition = default.get(identity)
        assert definition is not None
        assert callable(definition.fn)  # of a workflow: its body, for which the view is made
