"""The hook's caches: what a warm import reads, and every way in which a cache can have become wrong."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from tenuto.cli import main
from tenuto.directives import caches, importer, install, stamps
from tenuto.directives.caches import read_cache
from tenuto.directives.importer import DirectiveFinder
from tenuto.model.definitions import Step
from tenuto.model.ids import definition_hash

STEP = 'async def f(): "use step"; return 1\n'
FLOW = 'async def w():\n    "use workflow"\n    return 1\n'


class Imports:
    """Imports of the module `m` as fresh processes would make them, with what they read and compiled."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: list[str] = []
        self.compiled: list[str] = []

    def again(self, *, root: Path | None = None) -> ModuleType:
        sys.modules.pop("m", None)
        for finder in [f for f in sys.meta_path if isinstance(f, DirectiveFinder)]:
            finder._known.write()  # as at the end of a process
            sys.meta_path.remove(finder)
        install(root)
        importlib.invalidate_caches()
        self.read.clear()
        self.compiled.clear()
        return importlib.import_module("m")


@pytest.fixture
def imports(project: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Imports]:
    def begin(text: str) -> Imports:
        made = Imports(project({"m.py": text}))
        get_data, compile_file = importer.SourceFileLoader.get_data, importer.compile_file

        def reading(self: Any, path: str) -> bytes:
            made.read.append(os.path.basename(path))
            return get_data(self, path)

        def compiling(source: Any, filename: str, *rest: Any) -> Any:
            made.compiled.append(filename)
            return compile_file(source, filename, *rest)

        monkeypatch.setattr(importer.SourceFileLoader, "get_data", reading)
        monkeypatch.setattr(importer, "compile_file", compiling)
        return made

    return begin


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old enough for their times to be trusted, without waiting for that."""
    monkeypatch.setattr(stamps, "_SETTLING_NS", -(10**12))


def test_a_warm_import_reads_the_compiled_file_and_no_source(imports: Any, settled: None) -> None:
    made = imports(STEP)
    made.again()
    assert made.compiled
    assert isinstance(made.again().f, Step)
    assert made.read == [os.path.basename(sys.modules["m"].__cached__)]
    assert made.compiled == []


def test_a_file_without_a_marker_is_not_searched_again(imports: Any, settled: None) -> None:
    made = imports("x = 1\n")
    made.again()
    made.again()
    assert "m.py" not in made.read
    (made.root / "m.py").write_text(STEP)
    assert isinstance(made.again().f, Step)


def test_an_edit_of_equal_size_whose_modification_time_was_put_back_is_noticed(imports: Any, settled: None) -> None:
    made = imports(STEP)
    made.again()
    file = made.root / "m.py"
    before = file.stat()
    changed_ns = before.st_ctime_ns
    while changed_ns == before.st_ctime_ns:  # until the file system's clock has moved on
        file.write_text(STEP.replace("1", "2"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        changed_ns = file.stat().st_ctime_ns
    with pytest.raises(StopIteration) as stop:
        made.again().f.fn().send(None)
    assert stop.value.value == 2


def test_the_times_of_a_file_written_just_now_prove_nothing(imports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = imports(STEP)
    made.again()
    made.again()
    assert "m.py" in made.read  # compared by its text, because an edit in the same tick would not show
    assert made.compiled == []
    monkeypatch.setattr(stamps, "_SETTLING_NS", -(10**12))
    made.again()  # notes that the times may be trusted now
    made.again()
    assert "m.py" not in made.read


def test_a_touched_file_is_compared_and_not_compiled_again(imports: Any, settled: None) -> None:
    made = imports(STEP)
    made.again()
    os.utime(made.root / "m.py", ns=(1, 1))
    made.again()
    assert "m.py" in made.read
    assert made.compiled == []
    made.again()
    assert "m.py" not in made.read


def test_the_cache_of_another_compiler_version_is_ignored(
    imports: Any, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = imports(STEP)
    old = Path(made.again().__cached__)
    monkeypatch.setattr(caches, "VERSION", caches.VERSION + 1)
    caches._ends.cache_clear()
    try:
        module = made.again()
        assert made.compiled
        assert module.__cached__ != str(old)
        Path(module.__cached__).write_bytes(old.read_bytes())  # even under the right name
        made.again()
        assert made.compiled
    finally:
        caches._ends.cache_clear()


@pytest.mark.parametrize("change", ["strict", "root"])
def test_a_cache_made_under_other_settings_is_ignored(imports: Any, settled: None, change: str) -> None:
    made = imports(STEP)
    made.again()
    if change == "strict":
        (made.root / "pyproject.toml").write_text("[tool.tenuto.directives]\nstrict = true\n")
        made.again()
    else:
        assert made.again(root=made.root.parent).f.id == f"step//{made.root.name}/m.py//f"
    assert made.compiled


def test_a_module_loaded_from_its_cache_keeps_the_text_it_was_made_of(imports: Any, settled: None) -> None:
    made = imports(FLOW)
    made.again()
    module = made.again()
    assert "m.py" not in made.read
    before = definition_hash(module.w.stub)
    (made.root / "m.py").write_text(FLOW.replace("1", "22"))
    with pytest.raises(StopIteration) as stop:
        module.w.fn().send(None)
    assert stop.value.value == 1
    assert definition_hash(module.w.fn) == before


def test_a_symbolic_link_has_the_ids_of_what_it_points_to(imports: Any, settled: None) -> None:
    made = imports(STEP)
    made.again()
    (made.root / "inner").mkdir()
    (made.root / "m.py").rename(made.root / "inner" / "real.py")
    (made.root / "m.py").symlink_to(made.root / "inner" / "real.py")
    for _ in range(2):
        assert made.again().f.id == "step//inner/real.py//f"
    assert made.compiled == []


def test_a_cache_that_was_renamed_with_its_source_is_made_again(imports: Any, settled: None) -> None:
    made = imports(STEP + FLOW)
    first = made.again()
    assert first.w.fn is not None  # the view: its workflow-mode code is cached, too
    root = made.root
    (root / "m.py").rename(root / "n.py")
    renamed = 0
    for cached in (root / "__pycache__").glob("m.*"):
        cached.rename(cached.with_name("n" + cached.name[1:]))
        renamed += 1
    assert renamed == 2
    importlib.invalidate_caches()
    made.compiled.clear()
    moved = importlib.import_module("n")
    assert moved.f.id == "step//n.py//f"
    assert moved.w.id == "workflow//n.py//w"
    assert moved.w.fn.__code__.co_filename == str(root / "n.py")
    assert made.compiled == [str(root / "n.py")] * 2


def test_what_was_compiled_ahead_is_not_compiled_again_where_nothing_is_written(
    imports: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = imports(STEP + FLOW)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert made.again().w.fn is not None
    assert len(made.compiled) == 2  # every process does that: once for the module, once for its view
    assert not (made.root / "__pycache__").exists()
    result = CliRunner().invoke(main, ["compile", str(made.root), "--cache"])
    assert (result.exit_code, result.output) == (0, "")
    assert sys.dont_write_bytecode
    assert made.again().w.fn is not None
    assert made.compiled == []
    (made.root / "m.py").write_text(STEP + FLOW.replace("1", "2"))
    assert made.again().w.fn is not None
    assert len(made.compiled) == 2


def test_compiling_ahead_says_what_is_wrong_and_writes_the_rest(project: Any) -> None:
    root = project({"good.py": STEP, "bad.py": 'def w():\n    "use workflow"\n', "plain.py": "x = 1\n"})
    result = CliRunner().invoke(main, ["compile", str(root), "--cache"])
    assert result.exit_code == 1
    assert "DIR101" in result.output
    kept = {file.name.partition(".")[0] for file in (root / "__pycache__").glob("*tenuto*.pyc")}
    assert kept == {"good"}
    assert CliRunner().invoke(main, ["compile", str(root), "--cache", "--mode", "workflow"]).exit_code == 2


def test_who_may_not_read_a_source_may_not_read_it_in_its_cache(imports: Any) -> None:
    made = imports(STEP)
    (made.root / "m.py").chmod(0o600)
    cache = Path(made.again().__cached__)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(imports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = imports(STEP)
    (made.root / "__pycache__").write_text("in the way")
    for _ in range(2):
        assert isinstance(made.again().f, Step)
        assert made.compiled


def test_a_file_from_the_far_future_is_compiled_and_never_trusted_by_its_times(imports: Any, settled: None) -> None:
    made = imports(STEP)
    far_s = 300 * 365 * 86_400  # counted in nanoseconds, more than there is room for
    os.utime(made.root / "m.py", (2 * far_s, 2 * far_s))
    for _ in range(2):
        assert isinstance(made.again().f, Step)
        assert "m.py" in made.read


def test_a_cache_with_a_damaged_source_is_not_used_in_its_place(imports: Any, settled: None) -> None:
    made = imports(STEP)
    cache = Path(made.again().__cached__)
    whole = cache.read_bytes()
    packed = caches.pack(STEP.encode())
    cache.write_bytes(whole.replace(packed, bytes(len(packed))))
    os.utime(made.root / "m.py", ns=(1, 1))  # so that the text has to be compared
    assert isinstance(made.again().f, Step)
    assert made.compiled
    assert packed in cache.read_bytes()


@pytest.mark.parametrize("data", [b"", b"x" * 16, b"x" * 40, b"\0" * 41, b"\xff" * 80])
def test_bytes_that_are_no_cache_are_not_taken_for_one(data: bytes) -> None:
    kept = read_cache(data)
    assert kept is None or kept.code() is None


@pytest.mark.parametrize(
    "text",
    [
        'async def w():\n    "use workflow"\n    def g():\n        nonlocal x\n',  # in a body that step mode leaves out
        '"doc"\n"use step"\nfrom __future__ import annotations\n',
        f"{STEP}return 1\n",  # in code that stays as it was
        f"{STEP}x = yield\n",
        'from tenuto import step_options\n@step_options((yield))\nasync def f(): "use step"\n',
        'def w(): "use workflow"\nreturn 1\n',  # beside an error of ours, Python's own comes first
    ],
)
def test_what_python_itself_refuses_is_refused_at_import(project: Any, text: str) -> None:
    root = project({"m.py": text})
    install()
    with pytest.raises(SyntaxError) as ours:
        importlib.import_module("m")
    with pytest.raises(SyntaxError) as pythons:
        compile(text, str(root / "m.py"), "exec", dont_inherit=True)
    assert (ours.value.msg, ours.value.lineno, ours.value.filename) == (
        pythons.value.msg,
        pythons.value.lineno,
        str(root / "m.py"),
    )


@pytest.mark.parametrize("is_enabled", [True, False])
def test_compiling_leaves_the_garbage_collector_as_it_was(project: Any, is_enabled: bool) -> None:
    import gc

    project({"m.py": STEP, "wrong.py": 'def w(): "use workflow"\n'})
    install()
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        importlib.import_module("m")
        with pytest.raises(SyntaxError):
            importlib.import_module("wrong")
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
