"""What compiled code calls: the one module that the output of the directive compiler names.

Host modules (step and client mode) make steps, workflow stubs and serializable classes here. Workflow-mode code, which
runs in a module's view, makes stubs of the steps and hands the bodies of the workflows to their host objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar, cast, final

from tenuto.codec.classes import register_class
from tenuto.errors import NotCompiledError, NotInWorkflowError
from tenuto.model import inherited, view
from tenuto.model.definitions import Step, Workflow
from tenuto.model.place import Place
from tenuto.model.registry import default
from tenuto.model.steps import captured, plain_call

__all__ = [
    "UNSET",
    "CompiledWorkflow",
    "RemoteStep",
    "closure",
    "hoisted_step",
    "local_step",
    "local_workflow",
    "remote_step",
    "serializable",
    "share",
    "step",
    "workflow",
    "workflow_stub",
]

Captured: TypeAlias = Callable[[], Mapping[str, Any]]
Decorator: TypeAlias = Callable[[Callable[..., Any]], Any]
C = TypeVar("C", bound=type)

share = view.share
# `_new(C)` and then `C.__init__` is `C(...)` in two calls, and faster: calling a class packs the keywords into a dict.
# `partial` is a closure without cells. Both only where an import does it for each definition of each module.
_MARKED: Final = (Step, Workflow)
_new: Final = object.__new__
_STEP: Final[type[Step[..., Any]]] = Step
_lines: dict[str, int] = {}  # id -> the line of the branch that the host ran


@final
class _Unset:
    """Stands for a default that is left to the implementation."""

    def __repr__(self) -> str:
        return "..."


UNSET: Final = _Unset()


# --- steps


def step(id: str, *, line: int | None = None, name: str | None = None, **options: Any) -> Decorator:  # noqa: A002  # named so in compiled code
    """Step mode: registers the implementation and gives the step."""
    return partial(_registered_step, name or id, name, line, options)


def _registered_step(
    id: str,  # noqa: A002  # as above
    name: str | None,
    line: int | None,
    options: Mapping[str, Any],
    fn: Callable[..., Any],
) -> Step[..., Any]:
    if line is not None:
        _lines[id] = line
    made = _new(_STEP)
    _STEP.__init__(made, fn, id=id, name=name or fn.__name__, options=options)
    return default.register(made)


def local_step(
    id: str,  # noqa: A002  # named so in compiled code
    closure: Captured | None = None,
    *,
    line: int | None = None,
    name: str | None = None,
    **options: Any,
) -> Decorator:
    """Client mode, and steps in ordinary functions: gives the step, registers nothing."""

    def decorate(fn: Callable[..., Any]) -> Step[..., Any]:
        return Step(fn, id=name or id, name=name or fn.__name__, options=options, closure=_captures_of(fn, closure))

    return decorate


def _captures_of(fn: Callable[..., Any], closure: Captured | None) -> Captured | None:
    """A nested step always sends its captures, be it none: its copy has no defaults and gets every argument."""
    return dict if closure is None and "<locals>" in fn.__qualname__ else closure


def hoisted_step(id: str, qualname: str, *, name: str | None = None, **options: Any) -> Decorator:  # noqa: A002  # named so in compiled code
    """Step mode: registers the copy of a nested step, under the names that its source has."""

    def decorate(fn: Callable[..., Any]) -> Step[..., Any]:
        _rename(fn, qualname)
        made: Step[..., Any] = Step(fn, id=name or id, name=name or fn.__name__, options=options)
        return default.register(made)

    return decorate


def _rename(fn: Callable[..., Any], qualname: str) -> None:
    """Give a moved function, and what wraps it, the names of the original; tracebacks show them."""
    short = qualname.rpartition(".")[2]
    layer: Any = fn
    while layer is not None:
        layer.__name__ = short
        layer.__qualname__ = qualname
        inner = getattr(layer, "__wrapped__", None)
        if inner is None and isinstance(layer, FunctionType):
            layer.__code__ = layer.__code__.replace(co_name=short, co_qualname=qualname)
        layer = inner


def closure(*names: str) -> tuple[Any, ...]:
    """In the copy of a nested step: the captured values of this call."""
    values = captured.get(None)
    if values is None:
        raise NotInWorkflowError("a nested step was called where no call of it is being executed")
    return tuple(values[name] for name in names)


class RemoteStep(Step[..., Any]):
    """A step in a view: it has no body of its own. Attempts run what the host module registered."""

    def _elsewhere(
        self, place: Place | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        if place is None:
            raise NotInWorkflowError(f"step {self.name!r} of workflow code was called outside a run")
        if place.kind == "step":  # a plain function of the view, used as a step, calls it
            return plain_call(self.implementation()[0], args, kwargs)
        return super()._elsewhere(place, args, kwargs)


def remote_step(
    id: str,  # noqa: A002  # named so in compiled code
    closure: Captured | None = None,
    *,
    line: int | None = None,
    name: str | None = None,
    **options: Any,
) -> Decorator:
    """Workflow mode: a step without its body."""

    def decorate(fn: Callable[..., Any]) -> Any:
        if line is not None and _lines.get(name or id) != line:
            return _host_object(fn)
        captures = _captures_of(fn, closure)
        made = RemoteStep(fn, id=name or id, name=name or fn.__name__, options=options, closure=captures, remote=True)
        host = default.get(made.id)
        if isinstance(host, Step) and captures is None:
            _resemble(made, cast("Step[..., Any]", host))
        return made

    return decorate


def _host_object(fn: Callable[..., Any]) -> Any:
    """For a branch that the host did not run: what the host has under that name is what counts."""
    plain: Any = inspect.unwrap(fn)
    return getattr(plain, "__globals__", {}).get(plain.__name__, fn)


def _resemble(made: Any, host: Any) -> None:
    """Show the signature and annotations of the implementation, whose defaults the stub does not have."""
    made.fn = host.fn
    for name in ("__wrapped__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__", "__doc__"):
        if hasattr(host, name):
            setattr(made, name, getattr(host, name))


# --- workflows


class CompiledWorkflow(Workflow[..., Any]):
    """A workflow whose body lives in the view of its module and is made when a run first needs it."""

    _stub: Callable[..., Any]
    _body: Callable[..., Any] | None = None
    _is_settled = False  # while it is being registered its module is not ready for a view

    @property
    def fn(self) -> Callable[..., Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The body, over the view."""
        if self._body is None and self._is_settled:
            self._load()
        return self._stub if self._body is None else self._body

    @fn.setter
    def fn(self, value: Callable[..., Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._stub = value

    def attach(self, body: Callable[..., Any]) -> None:
        """Take the body that workflow-mode code has for this workflow."""
        self._body = body

    def settle(self) -> None:
        """From now on the body may be asked for."""
        self._is_settled = True

    def unsettle(self) -> None:
        """Its module is being loaded again: do not look for the body just to compare origins."""
        self._is_settled = False

    @property
    def stub(self) -> Callable[..., Any]:
        return self._stub

    def _load(self) -> None:
        import sys  # only here

        module = sys.modules.get(self._stub.__module__)
        if module is not None:
            view.view_of(module)
        if self._body is None:
            raise NotCompiledError(f"the body of workflow {self.id} is not to be had: its module was not compiled")


def workflow_stub(
    id: str,  # noqa: A002  # named so in compiled code
    *,
    line: int | None = None,
    name: str | None = None,
    queue: str = "default",
) -> Decorator:
    """Step and client mode: registers the workflow without its body."""
    return partial(_registered_stub, name or id, name, line, queue)


def _registered_stub(
    id: str,  # noqa: A002  # as above
    name: str | None,
    line: int | None,
    queue: str,
    fn: Callable[..., Any],
) -> Workflow[..., Any]:
    if line is not None:
        _lines[id] = line
    made = _new(CompiledWorkflow)
    CompiledWorkflow.__init__(made, fn, id=id, name=name or fn.__name__, queue=queue)
    known = default.get(id)
    if isinstance(known, CompiledWorkflow):
        known.unsettle()
        try:
            default.register(made)
        finally:
            known.settle()
    else:
        default.register(made)
    made.settle()
    return made


def workflow(
    id: str,  # noqa: A002  # named so in compiled code
    qualname: str | None = None,
    *,
    line: int | None = None,
    name: str | None = None,
    queue: str = "default",
) -> Decorator:
    """Workflow mode: hands the body to the host's workflow and gives that."""

    def decorate(fn: Callable[..., Any]) -> Any:
        if line is not None and _lines.get(name or id) != line:
            return _host_object(fn)
        if qualname is not None:
            _rename(fn, qualname)
        host = default.get(name or id)
        if not isinstance(host, CompiledWorkflow):  # the text that `tenuto compile` prints, imported by itself
            made: Workflow[..., Any] = Workflow(fn, id=name or id, name=name or fn.__name__, queue=queue)
            return default.register(made)
        _fill_defaults(fn, host.stub)
        host.attach(fn)
        return host

    return decorate


def _fill_defaults(fn: Callable[..., Any], stub: Callable[..., Any]) -> None:
    """Defaults are evaluated once, in the host module."""
    plain: Any = inspect.unwrap(fn)
    host: Any = inspect.unwrap(stub)
    if plain.__defaults__:
        plain.__defaults__ = tuple(
            theirs if ours is UNSET else ours
            for ours, theirs in zip(plain.__defaults__, host.__defaults__, strict=True)
        )
    given: dict[str, Any] = plain.__kwdefaults__ or {}
    given.update({key: host.__kwdefaults__[key] for key, value in given.items() if value is UNSET})
    plain.__annotations__ = host.__annotations__


def local_workflow(
    id: str,  # noqa: A002  # named so in compiled code
    *,
    line: int | None = None,
    name: str | None = None,
    queue: str = "default",
) -> Decorator:
    """Step and client mode, for a workflow inside a function: registers it with its body when the function runs."""

    def decorate(fn: Callable[..., Any]) -> Workflow[..., Any]:
        made: Workflow[..., Any] = Workflow(fn, id=name or id, name=name or fn.__name__, queue=queue)
        return default.register(made)

    return decorate


# --- classes


def serializable(
    id: str,  # noqa: A002  # named so in compiled code
    cls: C,
    *,
    serialize: Callable[[Any], Any] | None = None,
    deserialize: Callable[[Any], Any] | None = None,
) -> C:
    """Step and client mode: lets stored data name a class, and those below it that inherit its marked class methods."""
    register_class(id, cls, serialize, deserialize)
    members: Iterable[Any] = vars(cls).values()
    if any(isinstance(cast("Any", m).__func__, _MARKED) for m in members if isinstance(m, classmethod)):
        inherited.carry_on(cls)
    return cls
