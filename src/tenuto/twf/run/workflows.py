"""TWF workflows as workflows of the model: started, spawned, replayed and queried like any other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tenuto.errors import TwfError
from tenuto.model.definitions import Workflow
from tenuto.model.port import current_port

from ..provider import TwfProvider
from .bindings import Bindings
from .compiled import CompiledHandler, CompiledWorkflow
from .execution import CARRIED, Execution
from .faults import Fault
from .queries import query_function

__all__ = ["TwfWorkflow"]


class TwfWorkflow(Workflow[..., Any]):
    """A workflow that a program defines. Its id is its name; its definition's hash is the program's."""

    def __init__(self, compiled: CompiledWorkflow, bindings: Bindings | None, provider: TwfProvider) -> None:
        super().__init__(_main(compiled, bindings), id=compiled.name, name=compiled.name, queue=_queue(compiled))
        self.compiled = compiled
        self.bindings = bindings
        self.provider = provider
        self.described = self.fn, compiled.program.hash, compiled.segments
        for name, handler in compiled.queries.items():
            self.queries[name] = query_function(compiled, handler, bindings)

    def check_start(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuses a start whose arguments do not fit (TWF505)."""
        self._check(self.compiled.parameters.receive, args, kwargs, self.compiled.line)

    def check_signal(self, name: str, args: Sequence[Any]) -> None:
        """Refuses a signal whose arguments do not fit its handler; one without a handler is kept for later."""
        handler: CompiledHandler | None = self.compiled.signals.get(name)
        if handler is not None:
            self._check(handler.parameters.receive, args, {}, handler.line)

    def _check(self, fit: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], line: int) -> None:
        try:
            fit(args, {key: value for key, value in kwargs.items() if key != CARRIED})
        except Fault as fault:
            raise TwfError("TWF505", "TWF505", fault.message, file=self.compiled.file, line=line) from None

    def __repr__(self) -> str:
        return f"<twf workflow {self.id}>"


def _main(compiled: CompiledWorkflow, bindings: Bindings | None) -> Callable[..., Any]:
    async def twf_workflow(*args: Any, **kwargs: Any) -> Any:
        return await Execution(current_port.get(), compiled, bindings).run(args, kwargs)

    twf_workflow.__doc__ = f"The TWF workflow {compiled.name}."
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, positional) for name in compiled.parameters.names]
    cast("Any", twf_workflow).__signature__ = inspect.Signature(parameters)
    return twf_workflow


def _queue(compiled: CompiledWorkflow) -> str:
    options = compiled.options
    if not options.constant:
        return "default"
    found = dict(options.entries).get("taskqueue")
    return "default" if found is None else str(found(cast("Any", None)))
