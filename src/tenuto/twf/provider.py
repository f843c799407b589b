"""TWF as a provider of definitions: programs between a process and its store.

The interpreter is imported only where there is a program: most processes have none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tenuto.errors import TwfError
from tenuto.model.ids import short_name
from tenuto.model.providers import Texts
from tenuto.model.registry import Registry

if TYPE_CHECKING:
    from .run.compiled import CompiledActivity
    from .run.library import Library
    from .run.workflows import TwfWorkflow

__all__ = ["TwfProvider"]

log = logging.getLogger("tenuto.host")


class TwfProvider:
    """The programs of one registry; see `model.providers`. Those of the registry's parent count as its own."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._above = None if registry.parent is None else registry.parent.provided(TwfProvider)
        self._library: Library | None = None
        self._kept: WeakKeyDictionary[Texts, set[str]] = WeakKeyDictionary()  # what is known to be in a store

    @property
    def library(self) -> Library:
        """What is loaded; made when it is first asked for."""
        if self._library is None:
            from .run.library import Library

            self._library = Library(self._registry, None if self._above is None else self._above.library)
        return self._library

    def _loaded(self) -> Library | None:
        """The same; None while nobody here has asked for any."""
        if self._library is None and (self._above is None or self._above._loaded() is None):
            return None
        return self.library

    @property
    def in_use(self) -> bool:
        loaded = self._loaded()
        return loaded is not None and loaded.has_programs

    def abilities(self) -> list[str]:
        loaded = self._loaded()
        return [] if loaded is None else loaded.describe()

    def accept(self, workflow: TwfWorkflow, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuses a start whose arguments do not fit (TWF505)."""
        workflow.check_start(args, kwargs)

    def accept_signal(self, workflow: TwfWorkflow, name: str, args: Sequence[Any]) -> None:
        """Refuses a signal whose arguments do not fit its handler; one without a handler is kept for later."""
        workflow.check_signal(name, args)

    async def keep(self, texts: Texts) -> None:
        loaded = self._loaded()
        if loaded is None:
            return
        kept = self._kept.setdefault(texts, set())
        for program in loaded.registered():
            if program.hash not in kept:
                await texts.keep_program(program.hash, program.source, list(program.workflows))
                kept.add(program.hash)
        loaded.fetch = texts.program

    async def fetch(self, texts: Texts, target: str, digest: str) -> None:
        loaded = self._loaded()
        if not digest or (loaded is not None and loaded.program(digest) is not None):
            return
        source = await texts.program(digest)
        if source is None:
            return
        try:
            self.library.read(source)
            self._kept.setdefault(texts, set()).add(digest)
        except (TwfError, ValueError, LookupError, TypeError) as error:  # its runs are parked: TWF603
            log.warning("program %s cannot be read: %s", digest, error)

    async def runnable(self, texts: Texts) -> list[str]:
        """One whose activities nobody performs here is left to workers that can: taking it would only park it."""
        if not self.in_use:
            return []
        self.library.elsewhere = {short_name(name): name for name in await texts.defined()}
        found: list[str] = []
        for name, digests in await texts.programs_of():
            if self._registry.get(name) is None and await self._performable(texts, digests):
                found.append(name)
        return found

    async def _performable(self, texts: Texts, digests: Sequence[str]) -> bool:
        for digest in digests:
            await self.fetch(texts, "", digest)
            program = self.library.program(digest)
            if program is not None and all(map(self._performed, program.activities.values())):
                return True
        return False

    def _performed(self, activity: CompiledActivity) -> bool:
        from .run.activities import Performer
        from .run.faults import Stopped

        with self._registry.in_force():
            try:
                return Performer(activity, self.library.activity(activity.name, None), None).missing() is None
            except Stopped:
                return False

    def pinned(self, target: str, digest: str) -> TwfWorkflow | None:
        """By the text of a program that need not be the latest; functions are those that are deployed now."""
        loaded = self._loaded()
        program = None if loaded is None else loaded.program(digest)
        compiled = None if program is None else program.workflows.get(target)
        if compiled is None:
            return None
        from .run.workflows import TwfWorkflow

        current = self._registry.get(target)
        return TwfWorkflow(compiled, current.bindings if isinstance(current, TwfWorkflow) else None, self)

    def child(self, target: str, parent: TwfWorkflow) -> tuple[str, frozenset[str] | None] | None:
        """Of the parent's own program."""
        own = parent.compiled.program.workflows.get(target)
        return None if own is None else (own.program.hash, own.segments)
