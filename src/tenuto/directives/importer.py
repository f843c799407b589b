"""The import hook: modules of the project that carry a mark are compiled when they are imported.

The finder asks the finders behind it and exchanges only the stock loaders, so editable installs, namespace packages,
zip files and pytest's rewriting go on as they are. A file without a marker keeps its stock loader and stock cache.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source
from os import PathLike
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias, cast
from zipimport import zipimporter

from tenuto.directives.bytecode import compile_file
from tenuto.directives.caches import (
    CacheEnds,
    Kept,
    cache_between,
    cache_ends,
    cache_path,
    load,
    named_key,
    pack,
    read_cache,
    render_cache,
    unpack,
)
from tenuto.directives.errors import DirectiveWarning
from tenuto.directives.known_files import Entry, KnownFiles
from tenuto.directives.marker import has_directive, has_marker
from tenuto.directives.settings import directive_settings, file_key, folder_key, forget_settings
from tenuto.directives.stamps import Stamp, is_settled, stamp_of
from tenuto.directives.transform import Mode, transform
from tenuto.model import ids, view

__all__ = [
    "DirectiveFinder",
    "DirectiveLoader",
    "ZipDirectiveLoader",
    "install",
    "is_installed",
    "workflow_code_of",
]


# --- loaders

# What the finder learned about a file that is to be compiled: its folder, where the compiled file is kept, its stamp,
# and its source if that had to be read. A bare tuple: each marked module makes one.
Found: TypeAlias = tuple[str, str | None, Stamp | None, bytes | None]


class DirectiveLoader(SourceFileLoader):
    """Loads a source file compiled for one mode; also offers its workflow-mode code."""

    def __init__(self, fullname: str, path: str, mode: Mode, found: Found | None = None) -> None:
        self.name, self.path = fullname, path  # all that the stock loader does; asking it takes longer than the rest
        self.mode: Mode = mode
        self._found = found  # what the finder learned; good for one load
        self._packed: bytes | None = None  # the text that the module in memory was made of

    @property
    def cache(self) -> str | None:
        """Where the compiled file is kept."""
        return cache_path(*os.path.split(self.path), self.mode)

    def get_code(self, fullname: str) -> CodeType:
        found, self._found = self._found, None
        if found is None:
            found = os.path.dirname(self.path), self.cache, stamp_of(self.path), None
        folder, cache, stamp, source = found
        data = self._read(cache)
        if stamp is not None and data.endswith(stamp):
            # If the file is where it seems to be; the key of a symbolic link is another, and is never found so.
            key = folder_key(folder, self.mode)
            if key is None:
                key = file_key(self.path, ids.id_path(self.path), self.mode)
            else:
                key = named_key(key, os.path.basename(self.path))
            loaded = load(data, key)
            if loaded is not None:
                code, self._packed = loaded
                return code
        if source is None:
            source = self.get_data(self.path)
        self._packed = pack(source)
        return self._compared(read_cache(data), cache, source, stamp, self.mode)

    def exec_module(self, module: ModuleType) -> None:
        view.drop(module.__name__)
        super().exec_module(module)

    def workflow_code(self) -> CodeType:
        """The code that runs in the module's view, from the text that was loaded, whatever the file says now."""
        cache = cache_path(*os.path.split(self.path), "workflow")
        return self._compared(read_cache(self._read(cache)), cache, self._loaded(), None, "workflow")

    def loaded_source(self) -> str:
        """The text that the module in memory was made of."""
        return decode_source(self._loaded())

    def _loaded(self) -> bytes:
        return self.get_data(self.path) if self._packed is None else unpack(self._packed)

    def _compared(
        self, kept: Kept | None, cache: str | None, source: bytes, stamp: Stamp | None, mode: Mode
    ) -> CodeType:
        """The code of this source: from the cache if it is that of the same text, else compiled now."""
        path = ids.id_path(self.path)
        key = file_key(self.path, path, mode)
        code: CodeType | None = None
        if kept is not None and kept.is_for(key) and kept.is_of(source):
            code = kept.code()
            if code is not None and (stamp is None or kept.has(stamp) or not is_settled(stamp)):
                return code  # there is nothing better to write
        if code is None:
            code = compile_file(source, self.path, path, mode)
        if cache is not None and not sys.dont_write_bytecode:
            self._write(cache, render_cache(key, code, self._packed or pack(source), len(source), stamp))
        return code

    def _read(self, cache: str | None) -> bytes:
        try:
            return b"" if cache is None else self.get_data(cache)
        except OSError:
            return b""

    def _write(self, cache: str, data: bytes) -> None:
        try:
            mode = os.stat(self.path).st_mode
        except OSError:
            return  # gone by now
        self.set_data(cache, data, _mode=mode | 0o200)  # who may not read the source may not read it here


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


@dataclass(frozen=True, slots=True)
class _Folder:
    """What is the same for all files of a folder, looked up for the first of them."""

    path: str
    known: Mapping[str, Entry] | None  # None: not a folder of the project
    cache_ends: CacheEnds | None
    prefix: str | None  # where Python kept its caches then


class DirectiveFinder:
    """First on `sys.meta_path`; what it does not compile it hands on as it found it."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self._known = KnownFiles()
        self._folders: dict[str, _Folder] = {}

    def use(self, mode: Mode) -> None:
        """Compile for this mode from now on, and under settings that may have changed."""
        self.mode = mode
        self._folders.clear()

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
                    loader: Any = spec.loader
                    if type(loader) is SourceFileLoader:
                        self._adopt_file(spec, loader)
                    elif type(loader) is zipimporter:
                        self._adopt_zipped(spec, loader)
                    return spec
        return None

    def _adopt_file(self, spec: ModuleSpec, stock: SourceFileLoader) -> None:
        path = stock.path
        start, _, name = path.rpartition(os.sep)
        if not start or os.altsep is not None:  # not that simple
            start, name = os.path.split(path)
        folder = self._folders.get(start)
        if folder is None or folder.prefix != sys.pycache_prefix:
            folder = self._folders[start] = self._folder_of(path)
        known = folder.known
        stamp = None if known is None else stamp_of(path)
        if known is None or stamp is None:
            return
        source: bytes | None = None
        entry = known.get(name)
        if entry is not None and entry[0] == stamp:
            is_marked = entry[1]
        else:
            try:
                source = stock.get_data(path)
            except OSError:
                return
            is_marked = has_marker(source)
            self._known.note(folder.path, name, stamp, is_marked)
        if is_marked:
            spec.cached = cache = cache_between(folder.cache_ends, name)
            spec.loader = DirectiveLoader(spec.name, path, self.mode, (folder.path, cache, stamp, source))

    def _folder_of(self, file: str) -> _Folder:
        path = os.path.dirname(file)
        known = self._known.of(path) if _is_project_folder(path) else None
        return _Folder(path, known, cache_ends(path, self.mode), sys.pycache_prefix)

    def _adopt_zipped(self, spec: ModuleSpec, stock: zipimporter) -> None:
        if _is_project_folder(stock.archive):
            text = stock.get_source(spec.name)
            if text is not None and has_marker(text.encode()):
                spec.loader = cast("Any", ZipDirectiveLoader(stock, spec.name, self.mode))


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
    forget_settings()
    start = Path(root) if root is not None else _main_folder()
    ids.use_packages(directive_settings(ids.project_root(start / "module.py")).get("packages", ()))
    _is_project_folder.cache_clear()
    view.compile_with(workflow_code_of)
    for finder in sys.meta_path:
        if isinstance(finder, DirectiveFinder):
            finder.use(mode)
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
