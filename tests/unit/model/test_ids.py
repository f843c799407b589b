"""Ids of definitions, the project root, definition hashes and static names."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tenuto.errors import DirectiveError, NotCompiledError
from tenuto.model import ids
from tenuto.model.registry import default

Import = Callable[[str, str], ModuleType]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Write a module into a project and import it without any hook."""
    monkeypatch.setattr(default, "_by_id", {})
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def load(name: str, text: str) -> ModuleType:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        names.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    for name in names:
        sys.modules.pop(name, None)


def test_d017_the_root_has_the_tool_table_whatever_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "src" / "shop" / "orders.py"
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    (tmp_path / "src" / "pyproject.toml").write_text("[project]\n")
    for folder in (tmp_path, file.parent, Path("/")):
        monkeypatch.chdir(folder)
        assert ids.id_path(file) == "src/shop/orders.py"


def test_the_root_falls_back_from_table_to_project_to_repository_to_package(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "pkg" / "sub"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "m.py").touch()
    (tmp_path / ".git").mkdir()
    assert ids.id_path(package / "m.py") == "lib/pkg/sub/m.py"
    (tmp_path / "lib" / "pyproject.toml").write_text("[project]\n")
    ids.use_root(None)
    assert ids.id_path(package / "m.py") == "pkg/sub/m.py"


def test_a_root_key_is_relative_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tenuto]\nroot = "code"\n')
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "m.py").touch()
    (tmp_path / "beside.py").touch()
    assert ids.id_path(tmp_path / "code" / "m.py") == "m.py"
    with pytest.raises(DirectiveError, match="outside"):
        ids.id_path(tmp_path / "beside.py")


def test_an_explicit_root_and_the_variable_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a" / "b" / "m.py"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setenv("TENUTO_ROOT", str(tmp_path))
    assert ids.id_path(file) == "a/b/m.py"
    ids.use_root(tmp_path / "a")
    try:
        assert ids.id_path(file) == "b/m.py"
    finally:
        ids.use_root(None)


def test_d019_an_installed_file_is_named_by_its_distribution(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    site = tmp_path / ".venv" / "lib" / "site-packages"
    (site / "acme").mkdir(parents=True)
    (site / "acme" / "jobs.py").touch()
    (site / "stray.py").touch()
    info = site / "Acme_Jobs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Acme_Jobs\nVersion: 1.0\n")
    (info / "RECORD").write_text("acme/jobs.py,,\n")
    assert ids.id_path(site / "acme" / "jobs.py") == "@acme-jobs/acme/jobs.py"
    assert not ids.is_project_file(site / "acme" / "jobs.py")
    ids.use_packages(["acme.jobs"])
    try:
        assert ids.is_project_file(site / "acme" / "jobs.py")
        assert not ids.is_project_file(site / "stray.py")
    finally:
        ids.use_packages(())
    with pytest.raises(DirectiveError) as caught:
        ids.id_path(site / "stray.py")
    assert caught.value.code == "DIR119"


def test_d020_ids_use_forward_slashes_and_composed_characters() -> None:
    assert ids.make_id("step", "src\\shop\\orders.py", "pack") == "step//src/shop/orders.py//pack"
    assert ids.make_id("step", "u\u0308.py", "f") == "step//\u00fc.py//f"


def test_symbolic_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "m.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert ids.id_path(tmp_path / "link" / "m.py") == "real/m.py"


def test_a_file_in_an_archive_is_named_by_its_path_inside(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("pkg/m.py", "")
    assert ids.id_path(tmp_path / "app.zip" / "pkg" / "m.py") == "pkg/m.py"


def test_d022_an_interactive_definition_gets_an_id_and_a_warning() -> None:
    lines = "from tenuto import step\n@step\nasync def f(): pass\n\nprint('ID', f.id)\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=lines, capture_output=True, text=True, check=True)
    assert "ID step//<interactive>//f" in done.stdout
    assert "DIR211" in done.stderr


def test_identifiers_come_from_qualified_names() -> None:
    assert ids.identifier("pack.<locals>.label") == "pack/label"
    assert ids.identifier("Mailer.build.<locals>.part") == "Mailer.build/part"
    assert ids.short_name("step//m.py//pack/label") == "label"
    assert ids.short_name("step//m.py//Mailer.send") == "Mailer.send"
    assert ids.short_name("pay") == "pay"
    assert ids.parse_id("step//a//b//c") == ids.ParsedId("step", "a", "b//c")
    assert ids.parse_id("checkout") is None


def test_functions_and_classes_are_identified_by_file_and_name(place: Import) -> None:
    module = place("idm", "def f():\n    def g(): ...\n    return g\nclass C: ...\n")
    assert ids.definition_id("step", module.f) == "step//idm.py//f"
    assert ids.definition_id("step", module.f()) == "step//idm.py//f/g"
    assert ids.definition_id("class", module.C) == "class//idm.py//C"


def test_the_hash_ignores_layout_and_docstrings_and_sees_everything_else(
    place: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ids.definition_hash(place("h1", '"""Doc."""\nasync def w():\n    """Doc."""\n    return 1\n').w)
    assert ids.definition_hash(place("h2", "# comment\n\nasync def w(): return 1\n").w) == first
    assert ids.definition_hash(place("h3", "async def w(): return 2\n").w) != first
    assert ids.definition_hash(place("h4", "async def w(): return 1\ndef other(): ...\n").w) != first
    assert ids.definition_hash(place("h5", "async def w():\n    'use workflow'\n    return 1\n").w) != first
    monkeypatch.setenv("TENUTO_APP_VERSION", "2")
    assert ids.definition_hash(sys.modules["h1"].w) != first


def test_the_hash_follows_a_reload(place: Import, tmp_path: Path) -> None:
    module = place("h6", "async def w(): return 1\n")
    first = ids.definition_hash(module.w)
    (tmp_path / "h6.py").write_text("async def w(): return 1000\n")
    importlib.reload(module)
    assert ids.definition_hash(module.w) != first


def test_a_function_without_source_is_hashed_by_its_code() -> None:
    one: dict[str, Callable[[], int]] = {}
    two: dict[str, Callable[[], int]] = {}
    exec("def f(): return 1", one)  # noqa: S102  # a function without a file
    exec("def f(): return 2", two)  # noqa: S102
    assert ids.definition_hash(one["f"]) != ids.definition_hash(two["f"])


def test_d092_an_uncompiled_directive_is_named(place: Import) -> None:
    module = place("raw", "async def w():\n    'use workflow'\ndef plain(): ...\n")
    error = ids.not_compiled(module.w)
    assert isinstance(error, NotCompiledError)
    assert "tenuto.auto" in str(error)
    assert "w in" in str(error)
    assert ids.not_compiled(module.plain) is None
    marked = place("raw2", "'use workflow'\nasync def w(): ...\nasync def _hidden(): ...\n")
    assert ids.not_compiled(marked.w) is not None
    assert ids.not_compiled(marked._hidden) is None


NAMED = """
from tenuto import join, loop, removed, sleep, spawn, step, wait_for_signal, workflow

@step
async def charge(card): ...

@workflow(name="kid")
async def child(): ...

@workflow
async def w(card):
    await charge(card)
    await sleep(1, name="pause")
    await wait_for_signal("go")
    await join({"left": charge(1), "right": charge(2)})
    await spawn(child)
    removed("old", "step")
    return sorted([str(card)])
"""


def test_static_names_has_every_name_of_the_module(place: Import) -> None:
    names = ids.static_names(place("names1", NAMED).w.fn)
    assert names is not None
    assert {"charge", "pause", "signal:go", "left", "right", "old", "sleep", "timer", "join", "child:kid"} <= names
    assert "gone" not in names


@pytest.mark.parametrize(
    "line",
    [
        "await step(f'pay-{card}', charge.fn)",
        "await sleep(1, name=card)",
        "await join({card: charge(1)})",
        "await wait_for_signal(card)",
        "await card.process()",
        "await elsewhere(card)",
        "await spawn(card)",
        "removed(card, 'step')",
    ],
)
def test_static_names_is_unknown_as_soon_as_one_may_be_computed(place: Import, line: str) -> None:
    text = NAMED.replace("    return sorted", f"    {line}\n    return sorted")
    text += "import not_ours\nelsewhere = not_ours.elsewhere\n" if "elsewhere" in line else ""
    place("not_ours", "async def elsewhere(x): ...\n")
    assert ids.static_names(place(f"names{abs(hash(line))}", text).w.fn) is None
