"""Registries of definitions: by id, and finding them by what people write.

Rules:

1. Decorators and the import hook register in `default`; an app uses that one unless it is given another.
2. A run resolves names in the registry of its own app. That registry is put into the context code runs in, as limits
   are: of a client's call, of a worker's loops, of a run's own tasks (`current`).
3. What a registry does not have, its parent may have. A registry may have an id of its parent's for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractContextManager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

from tenuto.codec.projects import note_definition
from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError, DuplicateIdError
from tenuto.model.definition_source import is_interactive
from tenuto.model.ids import short_name
from tenuto.model.providers import DefinitionProvider

if TYPE_CHECKING:
    from tenuto.model.decorators import StepDecorator
    from tenuto.model.definitions import ContinueAsNew, Step, Workflow
    from tenuto.model.options import StepOptions

__all__ = ["Definition", "Registry", "Sort", "among", "current", "default"]

Sort: TypeAlias = Literal["workflow", "step"]
V = TypeVar("V", bound=DefinitionProvider)
P = ParamSpec("P")
R = TypeVar("R")


class Definition(Protocol):
    """A workflow or a step, as a registry sees it."""

    @property
    def id(self) -> str: ...

    @property
    def sort(self) -> Sort: ...

    @property
    def fn(self) -> Callable[..., Any]: ...


# By name, too: a checker does not see that a workflow of certain parameters is a definition.
D = TypeVar("D", bound="Definition | Workflow[..., Any] | Step[..., Any]")


class Registry:
    """Workflows and steps that an app's runs find by id or name, for `Tenuto(registry=...)`.

        billing = Registry()

        @billing.workflow
        async def invoice(order: str) -> None: ...

        app = Tenuto(registry=billing)

    What is not in it is looked for in `parent`; without one, nothing that is registered elsewhere is seen. `register`
    takes definitions that were made elsewhere, so that several registries may share them.
    """

    def __init__(self, parent: Registry | None = None) -> None:
        self.parent = parent
        self._by_id: dict[str, Definition] = {}
        self._providers: dict[type[DefinitionProvider], DefinitionProvider] = {}
        self._elsewhere: dict[object, frozenset[str]] = {}  # by worker of this process: what its store knows

    # --- registering

    def register(self, definition: D) -> D:
        """The definition itself, now found by its id.

        The same function of the same file replaces its earlier self (a reload, a script that is also imported), and
        what is typed in whatever was typed in before; any other definition with that id is a `DuplicateIdError`, and
        the first one stays.
        """
        note_definition(definition.fn, definition)
        known = self._by_id.setdefault(definition.id, definition)
        if known is definition:
            return definition
        if is_interactive(known.fn) and is_interactive(definition.fn):
            self._by_id[definition.id] = definition
            return definition
        if known.sort != definition.sort or _origin(known.fn) != _origin(definition.fn):
            first, second = (f"{file}, {name}" for file, name in (_origin(known.fn), _origin(definition.fn)))
            raise DuplicateIdError(f"id {definition.id!r} belongs to {first} and was asked for by {second}")
        self._by_id[definition.id] = definition
        return definition

    def forget(self, definition_id: str) -> None:
        """Takes a definition out; for tests."""
        self._by_id.pop(definition_id, None)

    @overload
    def workflow(self, fn: Callable[P, Coroutine[Any, Any, R | ContinueAsNew]], /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self, /, *, name: str | None = None, queue: str = "default"
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R | ContinueAsNew]]], Workflow[P, R]]: ...
    def workflow(self, fn: Any = None, /, *, name: str | None = None, queue: str = "default") -> Any:
        """As `@workflow`, in this registry."""
        from tenuto.model.decorators import made_workflow  # it makes what this module only keeps

        return made_workflow(self, fn, name, queue)

    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def step(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(self, /, **options: Unpack[StepOptions]) -> StepDecorator: ...
    def step(self, fn: Any = None, /, **options: Any) -> Any:
        """As `@step`, in this registry."""
        from tenuto.model.decorators import made_step  # as above

        return made_step(self, fn, options)

    # --- finding

    def get(self, definition_id: str) -> Definition | None:
        """The definition with exactly this id."""
        found = self._by_id.get(definition_id)
        return found if found is not None or self.parent is None else self.parent.get(definition_id)

    def find(self, text: str, sort: Sort) -> Definition:
        """The one definition that a text names: by its id, or by its last part while only one has it."""
        exact = self.get(text)
        if exact is not None and exact.sort == sort:
            return exact
        known = self.definitions(sort)
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

    def definitions(self, sort: Sort) -> list[Definition]:
        """All of one sort, in the order of their ids."""
        known = self._all()
        return [known[item] for item in sorted(known) if known[item].sort == sort]

    def _all(self) -> dict[str, Definition]:
        return self._by_id if self.parent is None else {**self.parent._all(), **self._by_id}

    # --- other languages

    def provided(self, sort: type[V]) -> V:
        """This registry's provider of a sort, made when it is first asked for."""
        found = self._providers.get(sort)
        if found is None:
            found = self._providers[sort] = cast("Callable[[Registry], V]", sort)(self)
        return cast("V", found)

    def providers(self) -> list[DefinitionProvider]:
        """Its own, and those of its parent that it has none for."""
        return list(self._all_providers().values())

    def _all_providers(self) -> dict[type[DefinitionProvider], DefinitionProvider]:
        return self._providers if self.parent is None else {**self.parent._all_providers(), **self._providers}

    # --- what others have registered

    def know_elsewhere(self, who: object, ids: Collection[str]) -> None:
        """What workers of a store have, for code that names a step and can ask nobody. No ids: forget it."""
        if ids:
            self._elsewhere[who] = frozenset(ids)
        else:
            self._elsewhere.pop(who, None)

    def find_id(self, text: str, sort: Sort) -> str:
        """The id that a text names, of a definition here or, where none is, in another process."""
        try:
            return self.find(text, sort).id
        except DefinitionNotFoundError:
            known = frozenset[str]().union(*self._elsewhere.values())
            found = among(text, sort, known.difference(self._all()))
            if found is None:
                raise
            return found

    # --- being the one that counts

    def apply(self) -> None:
        """Makes it the one that names are resolved in, in the context that is current, for as long as that lasts."""
        _IN_FORCE.set(self)

    def in_force(self) -> AbstractContextManager[None]:
        """The same for a block."""
        return _InForce(self)


class _InForce:
    """A class and no generator: every verb of an engine enters it."""

    __slots__ = ("_registry", "_token")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __enter__(self) -> None:
        self._token = _IN_FORCE.set(self._registry)

    def __exit__(self, *_: object) -> None:
        _IN_FORCE.reset(self._token)


default: Final = Registry()
_IN_FORCE: Final[ContextVar[Registry]] = ContextVar("tenuto_registry", default=default)


def current() -> Registry:
    """The registry in which names are resolved where this is called."""
    return _IN_FORCE.get()


def among(text: str, sort: Sort, ids: Collection[str]) -> str | None:
    """The one id of a definition in another process that a text names: itself, or the one with that last part."""
    other = "step//" if sort == "workflow" else "workflow//"
    known = [item for item in ids if not item.startswith(other)]
    if text in known:
        return text
    candidates = [item for item in known if item.split("//", 2)[-1] == text]  # as `Registry.find` has it
    candidates = candidates or [item for item in known if short_name(item) == text]
    if len(candidates) > 1:
        raise AmbiguousNameError(f"{len(candidates)} {sort}s are called {text!r}: {', '.join(sorted(candidates))}")
    return candidates[0] if candidates else None


def _origin(fn: Callable[..., Any]) -> tuple[str, str]:
    code = getattr(fn, "__code__", None)
    file = getattr(code, "co_filename", "") or getattr(fn, "__module__", "")
    return os.path.realpath(file) if os.path.isabs(file) else file, getattr(fn, "__qualname__", repr(fn))
