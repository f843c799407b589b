"""The definitions of this process, by id, and finding them by what people write."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from tenuto.codec.projects import note_definition
from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError, DuplicateIdError
from tenuto.model.definition_source import is_interactive
from tenuto.model.ids import short_name

__all__ = [
    "Definition",
    "Sort",
    "among",
    "definitions",
    "find",
    "find_id",
    "forget",
    "get",
    "know_elsewhere",
    "register",
]

Sort: TypeAlias = Literal["workflow", "step"]


class Definition(Protocol):
    """A workflow or a step, as the registry sees it."""

    @property
    def id(self) -> str: ...

    @property
    def sort(self) -> Sort: ...

    @property
    def fn(self) -> Callable[..., Any]: ...


D = TypeVar("D", bound=Definition)
_by_id: dict[str, Definition] = {}
_elsewhere: dict[object, frozenset[str]] = {}  # by worker of this process: what its store knows


def register(definition: D) -> D:
    """The definition itself, now found by its id.

    The same function of the same file replaces its earlier self (a reload, a script that is also imported), and what
    is typed in whatever was typed in before; any other definition with that id is a `DuplicateIdError`, and the first
    one stays.
    """
    note_definition(definition.fn, definition)
    known = _by_id.setdefault(definition.id, definition)
    if known is definition:
        return definition
    if is_interactive(known.fn) and is_interactive(definition.fn):
        _by_id[definition.id] = definition
        return definition
    if known.sort != definition.sort or _origin(known.fn) != _origin(definition.fn):
        first, second = (f"{file}, {name}" for file, name in (_origin(known.fn), _origin(definition.fn)))
        raise DuplicateIdError(f"id {definition.id!r} belongs to {first} and was asked for by {second}")
    _by_id[definition.id] = definition
    return definition


def forget(definition_id: str) -> None:
    """Takes a definition out; for tests."""
    _by_id.pop(definition_id, None)


def get(definition_id: str) -> Definition | None:
    """The definition with exactly this id."""
    return _by_id.get(definition_id)


def find(text: str, sort: Sort) -> Definition:
    """The one definition that a text names: by its id, or by its last part while only one has it."""
    exact = _by_id.get(text)
    if exact is not None and exact.sort == sort:
        return exact
    known = definitions(sort)
    # `pack/label` and `Mailer.send` before a nested `label`: what a file calls so comes first.
    candidates = [item for item in known if item.id.split("//", 2)[-1] == text]
    candidates = candidates or [item for item in known if short_name(item.id) == text]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        ids = ", ".join(item.id for item in candidates)
        raise AmbiguousNameError(f"{len(candidates)} {sort}s are called {text!r}: {ids}")
    names = {name for item in known for name in (item.id, short_name(item.id))}
    near = get_close_matches(text, sorted(names), n=3)
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise DefinitionNotFoundError(f"no {sort} is called {text!r}{hint}")


def among(text: str, sort: Sort, ids: Collection[str]) -> str | None:
    """The one id of a definition in another process that a text names: itself, or the one with that last part."""
    other = "step//" if sort == "workflow" else "workflow//"
    known = [item for item in ids if not item.startswith(other)]
    if text in known:
        return text
    candidates = [item for item in known if item.split("//", 2)[-1] == text]  # as `find` has it
    candidates = candidates or [item for item in known if short_name(item) == text]
    if len(candidates) > 1:
        raise AmbiguousNameError(f"{len(candidates)} {sort}s are called {text!r}: {', '.join(sorted(candidates))}")
    return candidates[0] if candidates else None


def know_elsewhere(who: object, ids: Collection[str]) -> None:
    """What workers of a store have registered, for code that names a step and can ask nobody. No ids: forget it."""
    if ids:
        _elsewhere[who] = frozenset(ids)
    else:
        _elsewhere.pop(who, None)


def find_id(text: str, sort: Sort) -> str:
    """The id that a text names, of a definition here or, where none is, in another process."""
    try:
        return find(text, sort).id
    except DefinitionNotFoundError:
        found = among(text, sort, frozenset[str]().union(*_elsewhere.values()).difference(_by_id))
        if found is None:
            raise
        return found


def definitions(sort: Sort) -> list[Definition]:
    """All of one sort, in the order of their ids."""
    return [_by_id[item] for item in sorted(_by_id) if _by_id[item].sort == sort]


def _origin(fn: Callable[..., Any]) -> tuple[str, str]:
    code = getattr(fn, "__code__", None)
    file = getattr(code, "co_filename", "") or getattr(fn, "__module__", "")
    return os.path.realpath(file) if os.path.isabs(file) else file, getattr(fn, "__qualname__", repr(fn))
