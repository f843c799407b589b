"""The one Temporal workflow that every run of ours is, whatever its type.

Dynamic handlers take raw values (`collections.abc.Sequence`: the SDK refuses the alias of `typing`), so that our own
codec reads them. `failure_exception_types` must stay unset: only what we wrap may fail a workflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from tenuto.errors import DecodingError, DefinitionNotFoundError
from tenuto.temporal.payloads import carries
from tenuto.temporal.runs.live import LiveRun
from tenuto.temporal.settings import Site

__all__ = ["AtSite", "TenutoWorkflow"]

_SITE: Final = "tenuto_site"


class AtSite(Interceptor):
    """Lets the runs of a worker find what they share: the SDK makes them, and hands them nothing else of ours."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  # the SDK's name
    ) -> type[WorkflowInboundInterceptor] | None:
        functions: Any = input.unsafe_extern_functions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        functions[_SITE] = lambda: self._site
        return None


@workflow.defn(dynamic=True, sandboxed=False)
class TenutoWorkflow:
    """Hands everything to the run. The first turn is taken here: messages of the first task come before `run`."""

    @workflow.init
    def __init__(self, args: Sequence[RawValue]) -> None:
        functions: Any = workflow.extern_functions()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        site: Any = functions.get(_SITE)
        self._fault: Exception | None = None  # said by `run`: a task that fails here is not tidied up
        self._is_unreadable = False
        try:
            self._run = LiveRun(args, Site() if site is None else site())
            answer_by: Any = workflow.set_query_handler  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            answer_by("__stack_trace", self._run.stack)  # in place of the SDK's own
            answer_by("__temporal_workflow_metadata", self._run.metadata)
        except DefinitionNotFoundError as error:
            self._fault = error
        except DecodingError as error:  # no deploy makes it readable: the run fails, not its task
            vars(error)["engine"] = "failed the run, which never began"
            self._fault = carries(error)
            self._is_unreadable = True

    @property
    def _live(self) -> LiveRun:
        if self._fault is not None:
            raise self._fault
        return self._run

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> RawValue:
        return await self._live.ending()

    @workflow.signal(dynamic=True)
    def signal(self, name: str, args: Sequence[RawValue]) -> None:
        if not self._is_unreadable:
            self._live.signal(name, args)

    @workflow.update(dynamic=True)
    async def update(self, name: str, args: Sequence[RawValue]) -> RawValue:
        info = workflow.current_update_info()
        assert info is not None  # noqa: S101  # in an update
        return await self._live.update(info.id, name, args)

    @update.validator
    def refuse_update(self, name: str, args: Sequence[RawValue]) -> None:
        self._live.refuse(name, args)

    @workflow.query(dynamic=True)
    def query(self, name: str, args: Sequence[RawValue]) -> Any:
        return self._live.query(name, args)
