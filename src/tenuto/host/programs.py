"""TWF programs between this process and its store: which text a run is to be executed by.

A run is pinned to the program that was current when it started. Here the text is found again: among what is loaded, or
in the store, which keeps every program that a run was started with. The interpreter is imported only where there is a
program: most processes have none.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast
from weakref import WeakKeyDictionary

from tenuto.codec.rows import VERSION_KEY
from tenuto.errors import TwfError
from tenuto.kernel.turn import Definition
from tenuto.model.definitions import Workflow
from tenuto.model.ids import short_name
from tenuto.model.main import definition_of
from tenuto.model.port import current_port
from tenuto.model.registry import default
from tenuto.store.port import Store

if TYPE_CHECKING:
    from tenuto.twf.run import TwfWorkflow
    from tenuto.twf.run.compiled import CompiledActivity, CompiledProgram
    from tenuto.twf.run.library import Library

log = logging.getLogger("tenuto.host")

__all__ = ["Programs", "abilities", "child_definition", "is_python", "is_twf", "loaded_library", "pinned", "version_of"]


# What is known to be in a store: shared by all who use it in this process.
_KEPT: WeakKeyDictionary[Store, set[str]] = WeakKeyDictionary()


def loaded_library() -> Library | None:
    """The programs of this process; None while nobody here has asked for any."""
    module = sys.modules.get("tenuto.twf.run.library")
    return None if module is None else module.library


def is_twf(workflow: object) -> TypeGuard[TwfWorkflow]:
    """Whether a workflow is defined by a program."""
    return hasattr(workflow, "compiled")


def is_python(target: str) -> bool:
    """Whether a workflow is known here, and not from a program: its text is the deployed one."""
    found = default.get(target)
    return isinstance(found, Workflow) and not is_twf(cast("object", found))


def abilities() -> list[str]:
    """What the bindings and namespaces of this process make it able to do."""
    library = loaded_library()
    return [] if library is None else library.describe()


class Programs:
    """The programs of one store, as far as this process has needed them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = _KEPT.setdefault(store, set())

    async def keep(self) -> None:
        """Everything loaded is in the store, so that a run started now will find its text wherever it goes on."""
        library = loaded_library()
        if library is None:
            return
        for found in default.definitions("workflow"):
            if is_twf(found) and found.compiled.program.hash not in self._kept:
                await self._keep(found.compiled.program)
        library.fetch = self._store.program

    async def _keep(self, program: CompiledProgram) -> None:
        await self._store.keep_program(program.hash, program.source, list(program.workflows))
        self._kept.add(program.hash)

    async def fetch(self, digest: str, target: str = "") -> None:
        """The program with this hash is loaded, if it is one and there is any."""
        if is_python(target):
            return
        library = loaded_library()
        if not digest or (library is not None and digest in library.programs):
            return
        source = await self._store.program(digest)
        if source is not None:
            from tenuto.twf.run.loading import read_program

            try:
                read_program(source)
                self._kept.add(digest)
            except (TwfError, ValueError, LookupError, TypeError) as error:  # its runs are parked: TWF603
                log.warning("program %s cannot be read: %s", digest, error)

    async def refresh(self) -> list[str]:
        """Looks again at what others have brought into the store; gives `runnable`."""
        library = loaded_library()
        if library is None or not library.programs:
            return []
        library.elsewhere = {short_name(name): name for name in await self._store.defined()}
        return await self.runnable()

    async def runnable(self) -> list[str]:
        """Workflows of programs in the store that this process can run though it has not loaded them itself.

        One whose activities nobody performs here is left to workers that can: taking it would only park it.
        """
        found: list[str] = []
        for name, digests in await self._store.programs_of():
            if default.get(name) is None and await self._performable(digests):
                found.append(name)
        return found

    async def _performable(self, digests: Sequence[str]) -> bool:
        for digest in digests:
            await self.fetch(digest)
            library = loaded_library()
            program = None if library is None else library.programs.get(digest)
            if program is not None and all(map(_performed, program.activities.values())):
                return True
        return False


def _performed(activity: CompiledActivity) -> bool:
    from tenuto.twf.run.activities import Performer
    from tenuto.twf.run.faults import Stopped
    from tenuto.twf.run.library import library

    try:
        return Performer(activity, library.activity(activity.name, None), None).missing() is None
    except Stopped:
        return False


def version_of(rows: Iterable[tuple[bytes, bytes]]) -> str:
    """The hash of the definition that a run is pinned to."""
    # A damaged row is nobody's hash; decoding the run says what is wrong with it, and parks that run only.
    return next((value.decode(errors="replace") for key, value in rows if key == VERSION_KEY), "")


def pinned(target: str, digest: str, current: Workflow[..., Any] | None) -> Workflow[..., Any]:
    """The definition that a run with this hash is executed by; one that parks it when nobody has the text.

    Python has one text, the deployed one. A TWF run keeps the text it started with.
    """
    if current is not None and (not is_twf(current) or digest in ("", current.compiled.program.hash)):
        return current
    library = loaded_library()
    program = None if library is None else library.programs.get(digest)
    if program is None:
        return _missing(target, digest)
    from tenuto.twf.run.loading import pinned_workflow

    return pinned_workflow(program, target) or _missing(target, digest)


def _missing(target: str, digest: str) -> Workflow[..., Any]:
    """Stands for a definition whose text nobody has: the run is parked, and resumes when somebody brings it."""
    error = TwfError(
        "TWF603", "TWF603", f"program {digest} of workflow {target} is neither loaded here nor in the store"
    )

    async def missing(*args: Any, **kwargs: Any) -> Any:
        current_port.get().park(error)

    workflow: Workflow[..., Any] = Workflow(missing, id=target, name=target)
    workflow.described = missing, digest, None
    return workflow


def child_definition(target: str, parent: Workflow[..., Any]) -> Definition:
    """What a child of this run starts with: the latest definition of its name, else its parent's own program."""
    found = default.get(target)
    if isinstance(found, Workflow):
        return Definition(*definition_of(cast("Workflow[..., Any]", found)))
    if is_twf(parent):
        own = parent.compiled.program.workflows.get(target)
        if own is not None:
            return Definition(own.program.hash, own.segments)
    return Definition("")
