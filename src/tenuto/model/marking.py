"""What goes with directives: options for marked functions, their types for checkers, and serializable classes.

`as_step` and `as_workflow` change nothing at run time. They exist because a directive changes no types: a checker sees
the plain function, and these say what it has become.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from types import FrameType, MethodType
from typing import Any, ParamSpec, TypeVar, Unpack, cast, overload

from tenuto.codec.classes import deserializer, register_class, serializer
from tenuto.model.definition_source import is_nameless
from tenuto.model.definitions import ContinueAsNew, Step, Workflow
from tenuto.model.ids import definition_id, id_path, interactive_id, make_id, not_compiled
from tenuto.model.options import StepOptions, spec_of

__all__ = [
    "as_step",
    "as_workflow",
    "deserializer",
    "serializable",
    "serializer",
    "startable",
    "step_options",
    "workflow_options",
]

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def step_options(**options: Unpack[StepOptions]) -> Callable[[F], F]:
    """The options of a function marked by `"use step"`, checked here and applied by the compiler.

    @step_options(max_attempts=5, timeout="10s")
    async def charge(card: str) -> str:
        "use step"
        ...
    """
    given = {key: value for key, value in options.items() if key != "name"}
    spec_of("step", given)
    return _unchanged


def workflow_options(*, name: str | None = None, queue: str = "default") -> Callable[[F], F]:
    """The options of a function marked by `"use workflow"`."""
    return _unchanged


def _unchanged(fn: F) -> F:
    return fn


def as_workflow(fn: Callable[P, Coroutine[Any, Any, R | ContinueAsNew]], /) -> Workflow[P, R]:
    """The workflow that a marked function is: the same object, for `.bind(...)` and `.query(...)` in typed code."""
    if isinstance(fn, Workflow):
        return cast("Workflow[P, R]", fn)
    raise not_compiled(fn) or TypeError(f"{fn!r} is not a workflow")


@overload
def as_step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
@overload
def as_step(fn: Callable[P, R], /) -> Step[P, R]: ...
def as_step(fn: Any, /) -> Any:
    """The step that a marked function is: the same object. Typed code awaits a `def` step so: `await as_step(f)(x)`."""
    if isinstance(fn, Step):
        return cast("Step[..., Any]", fn)
    raise not_compiled(fn) or TypeError(f"{fn!r} is not a step")


@overload
def serializable(cls: C, /) -> C: ...
@overload
def serializable(
    cls: C, /, *, serialize: Callable[[Any], Any], deserialize: Callable[[Any], Any], name: str | None = None
) -> C: ...
@overload
def serializable(*, name: str) -> Callable[[C], C]: ...
def serializable(
    cls: Any = None,
    /,
    *,
    serialize: Callable[[Any], Any] | None = None,
    deserialize: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Lets objects of a class, and the class itself, be stored.

    @serializable
    class Span: ...                      # with __workflow_serialize__ and __workflow_deserialize__

    serializable(Money, serialize=str, deserialize=Money.parse)      # a class of somebody else
    """
    if cls is None:
        return lambda marked: serializable(marked, name=name)  # type: ignore[call-overload]  # pyright: ignore
    identity = name
    if identity is None and serialize is None:
        identity = definition_id("class", cls)
    if identity is None:
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        file = None if caller is None else _file_of(caller)  # a foreign class belongs to the file that says so
        own = cls.__name__
        identity = interactive_id("class", own) if file is None else make_id("class", id_path(file), own)
    register_class(identity, cls, serialize, deserialize)
    return cls


def _file_of(frame: FrameType) -> str | None:
    """The file of the module that a frame belongs to; None for what was typed in."""
    file: object = frame.f_globals.get("__file__")
    is_main = frame.f_globals.get("__name__") == "__main__"
    if not isinstance(file, str) or (is_main and is_nameless(frame.f_code.co_filename)):
        return None
    return file


def startable(target: object, args: tuple[Any, ...]) -> tuple[Workflow[..., Any], tuple[Any, ...]]:
    """The workflow that `start` and `spawn` were given, and its arguments: a class method brings its class along.

    `NotCompiledError` for a function whose directive nobody compiled, `TypeError` for what is no workflow at all.
    """
    if isinstance(target, MethodType):
        function: object = target.__func__
        if isinstance(function, Workflow):
            return cast("Workflow[..., Any]", function), (target.__self__, *args)
    if isinstance(target, Workflow):
        return cast("Workflow[..., Any]", target), args
    if callable(target):
        raise not_compiled(target) or TypeError(f"{target!r} is no workflow; mark it with @workflow or a directive")
    raise TypeError(f"{target!r} is no workflow")
