"""The texts of definitions between this process and its store, for the providers that bring them.

What a provider is, and that runs of its definitions are pinned to a text, is said in `model.providers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenuto.codec.rows import VERSION_KEY
from tenuto.host.definitions import Definitions
from tenuto.model.definitions import Workflow
from tenuto.store.port import Store

__all__ = ["Programs", "version_of"]


class Programs:
    """What providers keep in one store, as far as this process has needed it."""

    def __init__(self, store: Store, definitions: Definitions) -> None:
        self._store = store
        self.definitions = definitions
        self._registry = definitions.registry

    def is_deployed(self, target: str) -> bool:
        """True if a workflow is known here and its text is the deployed one."""
        found = self._registry.get(target)
        return isinstance(found, Workflow) and found.provider is None

    async def keep(self) -> None:
        """Everything loaded is in the store, so that a run started now will find its text wherever it goes on."""
        for provider in self._registry.providers():
            await provider.keep(self._store)

    async def fetch(self, digest: str, target: str = "") -> None:
        """The text with this hash is loaded, if it is one and there is any."""
        if not self.is_deployed(target):
            for provider in self._registry.providers():
                await provider.fetch(self._store, target, digest)

    async def refresh(self) -> list[str]:
        """Looks again at what others have brought into the store; the workflows that can be run here besides."""
        found: list[str] = []
        for provider in self._registry.providers():
            found += await provider.runnable(self._store)
        return found

    async def check_signal(self, run_id: str, name: str, args: Sequence[object]) -> None:
        """Refuses a signal that does not fit, where a provider can say so; most processes have none in use."""
        if not any(provider.in_use for provider in self._registry.providers()):
            return
        record = await self._store.get(run_id)
        current = None if record is None else self.definitions.workflow(record.target)
        if record is None or (current is not None and current.provider is None):
            return
        digest = version_of(await self._store.rows(run_id, VERSION_KEY))
        await self.fetch(digest, record.target)
        known = self.definitions.pinned(record.target, digest, current)
        if known.provider is not None:
            known.provider.accept_signal(known, name, args)


def version_of(rows: Iterable[tuple[bytes, bytes]]) -> str:
    """The hash of the definition that a run is pinned to."""
    # A damaged row is nobody's hash; decoding the run says what is wrong with it, and parks that run only.
    return next((value.decode(errors="replace") for key, value in rows if key == VERSION_KEY), "")
