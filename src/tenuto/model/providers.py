"""Providers: they bring definitions that are not Python functions, a language's for example, into a registry.

A run of such a definition is pinned to the text it was started with. A provider finds that text again: among what is
loaded, or in the store, which keeps every text that a run was started with. Python needs none: its text is the
deployed one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tenuto.errors import TenutoError, TwfError

if TYPE_CHECKING:
    from tenuto.model.definitions import Workflow

__all__ = ["DefinitionProvider", "Texts", "text_missing"]


class Texts(Protocol):
    """What a store keeps for providers; see `store.programs`."""

    async def keep_program(self, program_hash: str, source: str, workflows: Sequence[str]) -> None: ...
    async def program(self, program_hash: str) -> str | None: ...
    async def programs_of(self) -> list[tuple[str, list[str]]]: ...
    async def defined(self) -> Collection[str]: ...


class DefinitionProvider(Protocol):
    """Another language's definitions, as an engine sees them."""

    @property
    def in_use(self) -> bool:
        """Whether anything is loaded; while nothing is, nobody need ask further."""
        ...

    def abilities(self) -> list[str]:
        """What this process can do beside executing its definitions, for telling workers apart."""
        ...

    def accept(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuses arguments of a start that do not fit."""
        ...

    def accept_signal(self, workflow: Any, name: str, args: Sequence[Any]) -> None:
        """Refuses a signal whose arguments do not fit."""
        ...

    async def keep(self, texts: Texts) -> None:
        """Stores everything loaded, so that a run started now finds its text wherever it goes on."""
        ...

    async def fetch(self, texts: Texts, target: str, digest: str) -> None:
        """Loads the text with this hash from the store, if it is one and is not loaded yet."""
        ...

    async def runnable(self, texts: Texts) -> list[str]:
        """Workflows of the store that can be run here, though they are not registered."""
        ...

    def pinned(self, target: str, digest: str) -> Workflow[..., Any] | None:
        """The workflow by the text with this hash, if it is loaded."""
        ...

    def child(self, target: str, parent: Any) -> tuple[str, frozenset[str] | None] | None:
        """Hash and names of what a run of `parent` starts under a name that nobody has registered."""
        ...


def text_missing(target: str, digest: str) -> TenutoError:
    """Why a run is parked whose text nobody has."""
    return TwfError(
        "TWF603", "TWF603", f"program {digest} of workflow {target} is neither loaded here nor in the store"
    )
