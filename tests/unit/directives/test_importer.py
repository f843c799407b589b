"""The import hook: what it compiles, what it leaves alone, and its cache."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tenuto.directives import install
from tenuto.directives.caches import VERSION
from tenuto.directives.importer import DirectiveFinder, DirectiveLoader, ZipDirectiveLoader, is_installed
from tenuto.directives.marker import has_marker
from tenuto.errors import DirectiveError, DuplicateIdError
from tenuto.model.definitions import Step
from tenuto.model.ids import definition_hash
from tenuto.model.registry import default

STEP = 'async def f(): "use step"; return 1\n'


def test_d086_plain_caches_are_neither_used_nor_touched(project: Any) -> None:
    root = project({"m.py": STEP})
    plain = importlib.import_module("m")
    cache = Path(plain.__cached__)
    before = cache.read_bytes(), cache.stat().st_mtime_ns
    del sys.modules["m"]
    install()
    compiled = importlib.import_module("m")
    assert isinstance(compiled.f, Step)
    assert (cache.read_bytes(), cache.stat().st_mtime_ns) == before
    names = sorted(path.name.partition(".")[2] for path in (root / "__pycache__").iterdir())
    assert names == [
        f"{sys.implementation.cache_tag}.opt-tenutostep{VERSION}.pyc",
        f"{sys.implementation.cache_tag}.pyc",
    ]
    assert compiled.__cached__.endswith(f"opt-tenutostep{VERSION}.pyc")


def test_the_cache_is_used_and_checked_by_content(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenuto.directives import importer

    project({"m.py": STEP})
    install()
    importlib.import_module("m")
    compiles: list[str] = []
    stock = importer.compile_file
    monkeypatch.setattr(importer, "compile_file", lambda *a, **k: compiles.append(a[1]) or stock(*a, **k))  # type: ignore[func-returns-value]
    for text, expected in ((STEP, 0), (STEP.replace("1", "2"), 1), (STEP, 2)):
        del sys.modules["m"]
        project({"m.py": text})
        importlib.import_module("m")
        assert len(compiles) == expected


def test_a_damaged_cache_is_made_again(project: Any) -> None:
    project({"m.py": STEP})
    install()
    cache = Path(importlib.import_module("m").__cached__)
    for damage in (b"", cache.read_bytes()[:16], cache.read_bytes()[:40]):
        del sys.modules["m"]
        cache.write_bytes(damage)
        assert isinstance(importlib.import_module("m").f, Step)


@pytest.mark.parametrize("order", ["hook in conftest", "hook by plugin"])
def test_d087_d088_assertions_of_tests_are_still_explained(tmp_path: Path, order: str) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    (tmp_path / "shop.py").write_text('async def f(): "use step"; return 1\nassert f is not None\n')
    head = (
        "from tenuto.directives import install\ninstall()\n"
        "from tenuto.directives.pytest_rewrite import install_rewrite\nassert install_rewrite()\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tenuto.directives import install\ninstall()\n" if order == "hook in conftest" else head
    )
    marked = "" if order == "hook in conftest" else 'async def g(x):\n    "use step"\n    return x\n'
    check = "" if order == "hook in conftest" else '\n    assert g.id == "step//test_shop.py//g"'
    (tmp_path / "test_shop.py").write_text(
        f"import shop\n{marked}\ndef test_it():{check}\n"
        f'    assert shop.f.id == "step//shop.py//f"\n    left = 40\n    assert left + 1 == 42\n'
    )
    plugin = ["-p", "no:tenuto"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", *plugin, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "assert (40 + 1) == 42" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout


def test_d088_a_workflow_in_a_test_module_has_its_body(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    (tmp_path / "conftest.py").write_text(
        "from tenuto.directives.pytest_rewrite import install_rewrite\ninstall_rewrite()\n"
    )
    (tmp_path / "test_flow.py").write_text(
        'async def w(x):\n    "use workflow"\n    return x + 1\n\ndef test_it():\n    try:\n'
        "        w.fn(1).send(None)\n    except StopIteration as stop:\n        assert stop.value == 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:tenuto", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_a_marked_test_module_that_was_not_compiled_is_reported() -> None:
    from tenuto.directives.pytest_rewrite import check_collected

    text = check_collected(__file__, b'async def f(): "use step"\n', {})
    assert text is not None
    assert "DIR122" in text
    assert check_collected(__file__, b'async def f(): "use step"\n', {"__tenuto_manifest__": {}}) is None
    assert check_collected(__file__, b'x = "use step"\n', {}) is None


def test_d089_a_file_without_a_marker_keeps_its_stock_loader(project: Any) -> None:
    project({"plain.py": "x = 1\n"})
    install()
    module = importlib.import_module("plain")
    assert type(module.__loader__) is SourceFileLoader
    assert module.__cached__.endswith(f"{sys.implementation.cache_tag}.pyc")


def test_the_standard_library_and_installed_packages_are_left_alone(project: Any) -> None:
    project({})
    install()
    for name in ("json.tool", "click.testing"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert type(spec.loader) is SourceFileLoader


def test_d090_namespace_packages_and_zip_files_are_compiled(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"space/inner.py": STEP})
    with zipfile.ZipFile(root / "app.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "")
        archive.writestr("zipped/m.py", STEP + 'async def w():\n    "use workflow"\n    return await f()\n')
    monkeypatch.syspath_prepend(root / "app.zip")
    install()
    assert importlib.import_module("space.inner").f.id == "step//space/inner.py//f"
    zipped = importlib.import_module("zipped.m")
    assert isinstance(zipped.__loader__, ZipDirectiveLoader)
    assert zipped.f.id == "step//zipped/m.py//f"
    assert zipped.w.fn.__globals__ is not vars(zipped)


def test_d090_a_finder_of_somebody_else_is_asked(project: Any) -> None:
    root = project({"elsewhere/hidden.py": STEP})

    class Editable:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> Any:
            if name == "visible":
                return importlib.util.spec_from_file_location(name, root / "elsewhere" / "hidden.py")
            return None

    sys.meta_path.append(Editable)  # type: ignore[arg-type]
    install()
    assert importlib.import_module("visible").f.id == "step//elsewhere/hidden.py//f"


def test_a_loader_that_is_not_the_stock_one_stays(project: Any) -> None:
    root = project({"m.py": STEP})

    class Mine(SourceFileLoader):
        pass

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> Any:
            if name == "m":
                return importlib.util.spec_from_loader(name, Mine(name, str(root / "m.py")))
            return None

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    install()
    module = importlib.import_module("m")
    assert type(module.__loader__) is Mine
    assert not isinstance(module.f, Step)


def test_d091_modules_imported_too_early_are_named(project: Any) -> None:
    project({"early.py": STEP, "talks.py": 'TEXT = "use step"\n'})
    importlib.import_module("early")
    importlib.import_module("talks")
    with pytest.warns(UserWarning, match="DIR210 early was imported before") as caught:
        install()
    assert len(caught) == 1


def test_d093_an_import_fails_with_the_first_error_and_notes_the_rest(project: Any) -> None:
    root = project({"m.py": 'x = 1\ndef a(): "use workflow"\nclass C:\n    async def b(self): "use step"\n'})
    install()
    with pytest.raises(DirectiveError) as caught:
        importlib.import_module("m")
    error = caught.value
    assert isinstance(error, SyntaxError)
    assert (error.code, error.lineno, error.offset, error.filename) == ("DIR101", 2, 1, str(root / "m.py"))
    assert (error.text, error.end_lineno, error.end_offset) == ('def a(): "use workflow"', 2, 6)
    assert len(error.__notes__) == 1
    assert "m.py:4:5: DIR102" in error.__notes__[0]
    assert [finding.code for finding in error.findings] == ["DIR101", "DIR102"]  # type: ignore[attr-defined]
    assert default.definitions("workflow") == []


def test_pythons_own_syntax_errors_come_through_with_the_file_name(project: Any) -> None:
    root = project({"m.py": '"doc"\n"use step"\nfrom __future__ import annotations\n'})
    install()
    with pytest.raises(SyntaxError, match="__future__") as caught:
        importlib.import_module("m")
    assert caught.value.filename == str(root / "m.py")


def test_d094_no_bytecode_is_written_when_that_is_wished(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"m.py": STEP})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    install()
    assert isinstance(importlib.import_module("m").f, Step)
    assert not (root / "__pycache__").exists()


def test_the_cache_honours_pycache_prefix(project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = project({"m.py": STEP})
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "caches"))
    install()
    assert importlib.import_module("m").__cached__.startswith(str(tmp_path / "caches"))
    assert not (root / "__pycache__").exists()


def test_reloading_compiles_and_registers_again(project: Any) -> None:
    project({"m.py": 'async def w():\n    "use workflow"\n    return 1\n'})
    install()
    module = importlib.import_module("m")
    old, old_body = module.w, module.w.fn
    project({"m.py": 'async def w():\n    "use workflow"\n    return 22\n'})
    importlib.reload(module)
    assert default.get("workflow//m.py//w") is module.w is not old
    assert old.fn is old_body
    with pytest.raises(StopIteration) as stop:
        module.w.fn().send(None)
    assert stop.value.value == 22


def test_the_view_is_made_of_the_text_that_was_loaded(project: Any) -> None:
    project({"m.py": 'async def w():\n    "use workflow"\n    return 1\n'})
    install()
    module = importlib.import_module("m")
    before = definition_hash(module.w.fn)
    project({"m.py": 'async def w():\n    "use workflow"\n    return 22\n'})
    with pytest.raises(StopIteration) as stop:
        module.w.fn().send(None)
    assert stop.value.value == 1
    assert definition_hash(module.w.fn) == before
    importlib.reload(module)
    assert definition_hash(module.w.fn) != before


def test_d021_one_id_from_two_files_is_an_error_and_one_file_twice_is_not(project: Any) -> None:
    root = project({"m.py": STEP})
    install()
    first = importlib.import_module("m").f
    spec = importlib.util.spec_from_file_location(
        "again", root / "m.py", loader=DirectiveLoader("again", str(root / "m.py"), "step")
    )
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert default.get("step//m.py//f") is again.f is not first
    project(
        {
            "a.py": 'from tenuto import step\n@step(name="pay")\nasync def f(): ...\n',
            "b.py": 'from tenuto import step\n@step(name="pay")\nasync def f(): ...\n',
        }
    )
    importlib.import_module("a")
    with pytest.raises(DuplicateIdError):
        importlib.import_module("b")


def test_installing_twice_keeps_one_hook_and_takes_the_new_settings(project: Any) -> None:
    project({"m.py": STEP})
    install()
    install(mode="client")
    assert is_installed()
    assert sum(isinstance(finder, DirectiveFinder) for finder in sys.meta_path) == 1
    importlib.import_module("m")
    assert default.get("step//m.py//f") is None


def test_strict_and_packages_come_from_the_project_file(project: Any) -> None:
    root = project({"m.py": 'def f(): "use step"\n'})
    (root / "pyproject.toml").write_text("[tool.tenuto.directives]\nstrict = true\n")
    install(root)
    with pytest.raises(DirectiveError) as caught:
        importlib.import_module("m")
    assert caught.value.code == "DIR301"


def test_warnings_appear_when_a_file_is_compiled_and_not_from_the_cache(
    project: Any, recwarn: pytest.WarningsRecorder
) -> None:
    project({"m.py": 'async def f():\n    "use step"\n    "use step"\n'})
    install()
    with pytest.warns(UserWarning, match=r"m\.py:3:5: DIR201") as caught:
        importlib.import_module("m")
    assert (Path(caught[0].filename).name, caught[0].lineno) == ("m.py", 3)
    del sys.modules["m"]
    importlib.import_module("m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x = "use step"', True),
        ("x = 'USE_STEP'", True),
        ("def __workflow_serialize__(self)", True),
        ("from tenuto import step", True),
        ("import tenuto", False),
        ("def use(): ...", False),
        ("step = workflow = 1", False),
    ],
)
def test_the_marker_is_a_quick_look(text: str, expected: bool) -> None:
    assert has_marker(text.encode()) is expected


def test_d092_a_script_run_by_python_itself_is_not_compiled(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        textwrap.dedent("""\
        from tenuto import as_workflow
        async def w():
            "use workflow"
        try:
            as_workflow(w)
        except Exception as error:
            print(type(error).__name__, error)
        """)
    )
    done = subprocess.run([sys.executable, "x.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("NotCompiledError DIR501 w in")
    assert "tenuto run" in done.stdout
