"""Which classes a project mentions: those are the ones that stored data may build.

Rules:

1. A class counts if a loaded project file defines it, imports it or names it in an annotation, or if it stands in the
   annotations of a class that counts. That its module is loaded is not enough: nobody has looked at what it does there.
2. Nothing is imported and nothing of an annotation is executed: names are looked up in what is loaded.
3. A class that counts is remembered, so the question costs a look into a set. One that does not is looked for in full.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any, Final, cast, get_args

from tenuto.codec.projects import is_own_module, is_project_module, modules

__all__ = ["count", "is_mentioned", "line_to_add"]

_INDENTED_IMPORT: Final = re.compile(rb"^[ \t]+from[ \t]", re.MULTILINE)
_counted: set[type[Any]] = set()


def count(cls: type[Any]) -> None:
    """A class counts, whoever mentions it."""
    _counted.add(cls)


def is_mentioned(cls: type[Any]) -> bool:
    """May stored data build objects of this class?"""
    return cls in _counted or _look_for(cls)


def line_to_add(cls: type[Any]) -> str:
    """What to write into a project file, so that it mentions a class."""
    return f"from {cls.__module__} import {cls.__qualname__.partition('.')[0]}"


def _look_for(cls: type[Any]) -> bool:
    module = sys.modules.get(cls.__module__)
    if is_own_module(cls.__module__) or (module is not None and is_project_module(cls.__module__, module)):
        _counted.add(cls)
        return True
    loaded = list(modules())
    _counted.update(_reached(_named_in(loaded)))
    if cls not in _counted and any(_is_imported_inside(module, cls) for module in loaded):
        _counted.add(cls)
    return cls in _counted


def _named_in(loaded: Iterable[ModuleType]) -> Iterator[type[Any]]:
    """Classes that stand in the project's namespaces, or in annotations there."""
    for module in loaded:
        names = vars(module)
        for value in list(names.values()):
            if isinstance(value, type):
                yield value
                if value.__module__ == module.__name__:
                    yield from _annotated_in_class(value)
                continue
            function = _function_of(value)
            if function is not None and function.__module__ == module.__name__:
                yield from _annotated(function, function.__globals__)
        yield from _annotated(module, names)


def _function_of(value: object) -> FunctionType | None:
    """A function, also one that a decorator has wrapped."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, (staticmethod, classmethod)):
        return _function_of(cast("Any", value).__func__)
    inner = getattr(value, "__dict__", {}).get("__wrapped__") if not isinstance(value, ModuleType) else None
    return inner if isinstance(inner, FunctionType) else None


def _annotated_in_class(cls: type[Any]) -> Iterator[type[Any]]:
    for member in list(vars(cls).values()):
        if isinstance(member, type) and member.__qualname__.startswith(f"{cls.__qualname__}."):
            yield member
            yield from _annotated_in_class(member)
        elif (function := _function_of(member)) is not None:
            yield from _annotated(function, function.__globals__)


def _reached(found: Iterable[type[Any]]) -> set[type[Any]]:
    """These, and what their fields are annotated with, and so on."""
    reached: set[type[Any]] = set()
    waiting = [*found, *_counted]
    while waiting:
        cls = waiting.pop()
        if cls not in reached:
            reached.add(cls)
            for base in cls.__mro__:
                names = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
                waiting += _annotated(base, names)
    return reached


# --- annotations


def _annotated(owner: object, names: Mapping[str, Any]) -> Iterator[type[Any]]:
    for annotation in _annotations_of(owner).values():
        yield from _classes_in(annotation, names, 0)


def _annotations_of(owner: object) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        try:
            return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
        except Exception:  # noqa: BLE001  # the class's own code, or a class that has none
            return {}
    found = vars(owner).get("__annotations__") if hasattr(owner, "__dict__") else None
    if found is None and isinstance(owner, FunctionType):
        found = owner.__annotations__
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _classes_in(annotation: Any, names: Mapping[str, Any], depth: int) -> Iterator[type[Any]]:
    """The classes that an annotation names, also inside of others."""
    if isinstance(annotation, str):
        yield from _classes_in_text(annotation, names)
        return
    forward = getattr(annotation, "__forward_arg__", None)  # a text inside of a generic
    if isinstance(forward, str):
        yield from _classes_in_text(forward, names)
        return
    if isinstance(annotation, type):
        yield annotation
    supertype = getattr(annotation, "__supertype__", None)  # of a NewType
    inner = (supertype,) if supertype is not None else get_args(annotation)
    for part in inner if depth < 20 else ():
        yield from _classes_in(part, names, depth + 1)


def _classes_in_text(text: str, names: Mapping[str, Any]) -> Iterator[type[Any]]:
    for path in _paths_in(text):
        found = _resolve(path, names)
        if isinstance(found, type):
            yield found
        elif found is not None and not isinstance(found, str):
            yield from _classes_in(found, names, 10)  # an alias of a module: `Line = Item | Discount`


@lru_cache(maxsize=8192)
def _paths_in(text: str) -> tuple[tuple[str, ...], ...]:
    """The dotted names in an annotation that is a text."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(_dotted_names(tree))


def _dotted_names(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and (path := _path(node)):
            yield path
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _paths_in(node.value)


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := _path(node.value)):
        return (*before, node.attr)
    return ()


def _resolve(path: tuple[str, ...], names: Mapping[str, Any]) -> object:
    found: Any = None
    for part in path:
        found = names.get(part)
        if not isinstance(found, (type, ModuleType)):
            break  # not through its attributes: a module or metaclass may run code for a missing name
        names = vars(found)
    return found


# --- imports that leave no name behind: inside of functions, or for type checkers only


def _is_imported_inside(module: ModuleType, cls: type[Any]) -> bool:
    file = vars(module).get("__file__")
    name = cls.__qualname__.partition(".")[0]
    return isinstance(file, str) and (cls.__module__, name) in _inner_imports(file, module.__name__, name)


def _inner_imports(file: str, module_name: str, name: str) -> set[tuple[str, str]]:
    try:
        with open(file, "rb") as source:
            text = source.read()
        if name.encode() not in text or _INDENTED_IMPORT.search(text) is None:
            return set()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, UnicodeEncodeError):
        return set()
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin = _origin(node, module_name)
            found |= {place for alias in node.names if (place := _defined_at(origin, alias.name)) is not None}
    return found


def _origin(node: ast.ImportFrom, module_name: str) -> str:
    if not node.level:
        return node.module or ""
    module = sys.modules.get(module_name)
    package = str(vars(module).get("__package__") or "") if module is not None else ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def _defined_at(module_name: str, name: str) -> tuple[str, str] | None:
    """Where the class is defined that a module has under a name: a package often passes on what its parts define."""
    module = sys.modules.get(module_name)
    found = None if module is None else vars(module).get(name)
    return (found.__module__, found.__qualname__.partition(".")[0]) if isinstance(found, type) else None
