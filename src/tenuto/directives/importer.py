"""The import hook: modules of the project that carry a mark are compiled when they are imported.

The finder asks the finders behind it and exchanges only the stock loaders, so editable installs, namespace packages,
zip files and pytest's rewriting go on as they are. A file without a marker keeps its stock loader and stock cache.
"""

from __future__ import annotations

import ast
import marshal
import os
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, decode_source, source_hash
from os import PathLike
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, cast
from zipimport import zipimporter

from tenuto.directives.errors import DirectiveWarning, as_error, describe, errors_of
from tenuto.directives.known_files import KnownFiles
from tenuto.directives.marker import has_directive, has_marker
from tenuto.directives.transform import Mode, Result, transform
from tenuto.errors import DirectiveError
from tenuto.model import ids, view

__all__ = [
    "DirectiveFinder",
    "DirectiveLoader",
    "ZipDirectiveLoader",
    "carry_manifest",
    "compile_file",
    "install",
    "is_installed",
    "workflow_code_of",
]

VERSION: Final = 1  # of the compiler: part of every cache key and of the tag
_HASHED: Final = (0b11).to_bytes(4, "little")  # a pyc that is checked by hash
_HEADER: Final = 16


# --- compiling


def compile_file(source: bytes | str, filename: str, path: str, mode: Mode, optimize: int = -1) -> CodeType:
    """The code object of a file in one mode. Raises `DirectiveError` for its errors, warns of the rest."""
    try:
        result = transform(source, path, mode, strict=_is_strict(filename))
    except DirectiveError:
        raise
    except SyntaxError as error:
        error.filename = filename  # the compiler knows only the id's path
        raise
    if errors_of(result.findings):
        raise as_error(result.findings, filename, result.lines)
    if mode != "workflow":
        for finding in result.findings:
            warnings.warn_explicit(DirectiveWarning(describe(finding)), None, filename, finding.line)
    tree = result.code
    assert tree is not None  # noqa: S101  # there was no error
    if result.is_changed and mode != "workflow":
        carry_manifest(tree, result)
    return compile(tree, filename, "exec", dont_inherit=True, optimize=optimize)


def carry_manifest(tree: ast.Module, result: Result) -> None:
    """Let the module know its manifest before its own code runs: a script may start runs while it is executed."""
    is_head = True
    for index, statement in enumerate(tree.body):
        is_head = is_head and isinstance(statement, ast.Expr | ast.ImportFrom)
        if not is_head or (isinstance(statement, ast.ImportFrom) and statement.module != "__future__"):
            tree.body.insert(index, _manifest_assignment(result))
            return


def _manifest_assignment(result: Result) -> ast.stmt:
    value = ast.parse(repr(result.manifest), mode="eval").body
    made = ast.Assign([ast.Name("__tenuto_manifest__", ast.Store())], value)
    for node in ast.walk(made):
        if "lineno" in node._attributes:
            node.lineno = node.end_lineno = 1  # type: ignore[attr-defined]  # pyright: ignore
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]  # pyright: ignore
    return made


def _is_strict(filename: str) -> bool:
    return _is_strict_folder(os.path.dirname(filename))


@lru_cache(maxsize=4096)
def _is_strict_folder(folder: str) -> bool:
    return bool(_directive_settings(ids.project_root(Path(folder) / "module.py")).get("strict", False))


def _directive_settings(root: Path) -> dict[str, Any]:
    settings = ids.tool_settings(root).get("directives", {})
    return dict(settings) if isinstance(settings, dict) else {}  # pyright: ignore[reportUnknownArgumentType]


# --- loaders


class DirectiveLoader(SourceFileLoader):
    """Loads a source file compiled for one mode; also offers its workflow-mode code."""

    def __init__(self, fullname: str, path: str, mode: Mode, source: bytes | None = None) -> None:
        super().__init__(fullname, path)
        self.mode: Mode = mode
        self._found = source  # what the finder read; good for one load
        self.cache = cache_path(path, mode)
        self._loaded: bytes | None = None  # the text that the module in memory was made of

    def get_code(self, fullname: str) -> CodeType:
        source, self._found = self._found, None
        if source is None:
            source = self.get_data(self.path)
        self._loaded = source
        return self._cached(source, self.mode)

    def exec_module(self, module: ModuleType) -> None:
        view.drop(module.__name__)
        super().exec_module(module)

    def workflow_code(self) -> CodeType:
        """The code that runs in the module's view, from the text that was loaded, whatever the file says now."""
        source = self.get_data(self.path) if self._loaded is None else self._loaded
        return self._cached(source, "workflow")

    def loaded_source(self) -> str:
        """The text that the module in memory was made of."""
        return decode_source(self.get_data(self.path) if self._loaded is None else self._loaded)

    def _cached(self, source: bytes, mode: Mode) -> CodeType:
        path = ids.id_path(self.path)
        key = source_hash(f"{VERSION}\0{path}\0{mode}\0{_is_strict(self.path)}\0{self.path}\0".encode() + source)
        cache = self.cache if mode == self.mode else cache_path(self.path, mode)
        code = None if cache is None else self._read(cache, key)
        if code is None:
            code = compile_file(source, self.path, path, mode)
            if cache is not None and not sys.dont_write_bytecode:
                self.set_data(cache, MAGIC_NUMBER + _HASHED + key + marshal.dumps(code))
        return code

    def _read(self, cache: str, key: bytes) -> CodeType | None:
        try:
            data = self.get_data(cache)
        except OSError:
            return None
        if data[:_HEADER] != MAGIC_NUMBER + _HASHED + key:
            return None
        try:
            code = marshal.loads(memoryview(data)[_HEADER:])  # noqa: S302  # as Python does with its own caches
        except (EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None


def cache_path(path: str, mode: Mode) -> str | None:
    """Where the compiled file is kept: beside the stock cache, under a tag of our own."""
    level = sys.flags.optimize
    tag = f"tenuto{mode}{VERSION}" + (f"o{level}" if level else "")
    try:
        return cache_from_source(path, optimization=tag)
    except NotImplementedError:
        return None


class ZipDirectiveLoader:
    """Loads a module of a zip file, compiled; nothing is cached."""

    def __init__(self, stock: zipimporter, fullname: str, mode: Mode) -> None:
        self.mode: Mode = mode
        self._stock = stock
        self._name = fullname

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        view.drop(module.__name__)
        exec(self.get_code(module.__name__), vars(module))  # noqa: S102  # this is what importing is

    def get_code(self, fullname: str) -> CodeType:
        return self._compiled(self.mode)

    def workflow_code(self) -> CodeType:
        return self._compiled("workflow")

    def _compiled(self, mode: Mode) -> CodeType:
        filename = self._stock.get_filename(self._name)
        return compile_file(self._stock.get_source(self._name) or "", filename, ids.id_path(filename), mode)


# --- the finder


class DirectiveFinder:
    """First on `sys.meta_path`; what it does not compile it hands on as it found it."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self._known = KnownFiles()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders behind this one find, with the loader exchanged where there is something to compile."""
        behind = False
        for finder in sys.meta_path:
            if finder is self:
                behind = True
            elif behind:
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return self._adopt(spec)
        return None

    def _adopt(self, spec: ModuleSpec) -> ModuleSpec:
        loader: Any = spec.loader
        if type(loader) is SourceFileLoader:
            folder, name = os.path.split(loader.path)
            if _is_project_folder(folder):
                self._adopt_file(spec, loader, folder, name)
        elif type(loader) is zipimporter and _is_project_folder(loader.archive):
            text = loader.get_source(spec.name)
            if text is not None and has_marker(text.encode()):
                spec.loader = cast("Any", ZipDirectiveLoader(loader, spec.name, self.mode))
        return spec

    def _adopt_file(self, spec: ModuleSpec, stock: SourceFileLoader, folder: str, name: str) -> None:
        known = self._known.look(folder, name, stock.path)
        if known is False:
            return
        try:
            source = stock.get_data(stock.path)
        except OSError:
            return
        if known is None:
            known = has_marker(source)
            self._known.note(folder, name, stock.path, known)
        if known:
            loader = DirectiveLoader(spec.name, stock.path, self.mode, source)
            spec.loader = loader
            spec.cached = loader.cache


@lru_cache(maxsize=4096)
def _is_project_folder(folder: str) -> bool:
    return ids.is_project_file(f"{folder}/module.py")


# --- installing


def install(root: str | PathLike[str] | None = None, mode: Mode = "step") -> None:
    """Compile directives in modules imported from now on.

    `root` is the folder that ids are relative to (found by itself if not given). In mode `client` steps are not
    registered: for programs that only start runs. Installing again changes the settings.
    """
    ids.use_root(root)
    start = Path(root) if root is not None else _main_folder()
    ids.use_packages(_directive_settings(ids.project_root(start / "module.py")).get("packages", ()))
    _is_project_folder.cache_clear()
    _is_strict_folder.cache_clear()
    view.compile_with(workflow_code_of)
    for finder in sys.meta_path:
        if isinstance(finder, DirectiveFinder):
            finder.mode = mode
            return
    _report_late()
    sys.meta_path.insert(0, DirectiveFinder(mode))


def is_installed() -> bool:
    """Is the hook at work in this process?"""
    return any(isinstance(finder, DirectiveFinder) for finder in sys.meta_path)


def workflow_code_of(module: ModuleType) -> CodeType:
    """The workflow-mode code of a compiled module whose loader does not know it: a script, a rewritten test module."""
    filename = str(module.__file__)
    return compile_file(Path(filename).read_bytes(), filename, ids.id_path(filename), "workflow")


def _main_folder() -> Path:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).parent if isinstance(file, str) else Path.cwd()


def _report_late() -> None:
    """Warn of modules with directives that were imported before there was a hook (DIR210)."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(file, str) or not file.endswith(".py"):
            continue
        if "__tenuto_manifest__" in vars(module) or not _is_project_folder(os.path.dirname(file)):
            continue
        if _carries_directives(file):
            text = f"{file}:1:1: DIR210 {name} was imported before the hook was installed, so it is not compiled"
            warnings.warn_explicit(DirectiveWarning(f"{text} (install the hook earlier)"), None, file, 1)


def _carries_directives(file: str) -> bool:
    """Would the compiler have had anything to do in this file? (Texts and comments speak of directives, too.)"""
    try:
        source = Path(file).read_bytes()
        return has_directive(source) and transform(source, file, "client").has_directives
    except (OSError, SyntaxError):
        return False
