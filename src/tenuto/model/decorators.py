"""`@workflow` and `@step`, and `step("name", fn, ...)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack, overload

from tenuto.errors import DirectiveError
from tenuto.model.definitions import ContinueAsNew, Step, Workflow, encode_call
from tenuto.model.ids import definition_id
from tenuto.model.options import InlineOptions, StepOptions, spec_named, spec_of
from tenuto.model.place import here, refuse
from tenuto.model.registry import Registry, default
from tenuto.model.steps import Implementation, StepCall, durable, is_async, is_plain, plain_call

__all__ = ["StepDecorator", "made_step", "made_workflow", "step", "workflow"]

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
R = TypeVar("R")


class _Named:
    """A function that was named in place: `step("name", fn, ...)`. It has no id, so no queue can carry it."""

    __slots__ = ("fn", "id")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.id = ""

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        return encode_call(args, {})

    def implementation(self) -> Implementation:
        return self.fn, is_async(self.fn)


def _call_named(name: str, fn: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
    if not callable(fn):
        raise TypeError(f"step({name!r}, ...): {fn!r} is not a function")
    spec = spec_of(name, options, inline=True) if options else spec_named(name)
    function = fn.fn if isinstance(fn, Step) else fn
    place = here.get()
    if place is None or place.kind == "step":
        return plain_call(function, args, {})
    if not place.open:
        raise refuse(f"step {name!r}", place)
    callee = _Named(function)
    return durable(spec, StepCall(callee, args) if is_plain(args) else StepCall(callee, None, encode_call(args, {})))


# --- decorators


class StepDecorator(Protocol):
    """What `step(**options)` gives: it makes a step of a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R | ContinueAsNew]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *, name: str | None = None, queue: str = "default"
) -> Callable[[Callable[P, Coroutine[Any, Any, R | ContinueAsNew]]], Workflow[P, R]]: ...
def workflow(fn: Any = None, /, *, name: str | None = None, queue: str = "default") -> Any:
    """Makes a workflow of an `async def`: it runs to its end whatever crashes in between.

        @workflow
        async def checkout(card: str, cents: int) -> str:
            receipt = await charge(card, cents)
            await sleep("1 day")
            return receipt

    `name=` replaces the id, so that the function can move to another file while runs are open.
    """
    return made_workflow(default, fn, name, queue)


def made_workflow(registry: Registry, fn: Any, name: str | None, queue: str) -> Any:
    """The workflow that a function becomes in a registry; without a function, the decorator that makes it."""
    if fn is not None:
        return _make_workflow(registry, fn, name, queue)

    def decorate(fn: Any) -> Any:
        return _make_workflow(registry, fn, name, queue)

    return decorate


def _make_workflow(registry: Registry, fn: Any, name: str | None, queue: str) -> Workflow[..., Any]:
    _check_marked(fn, "workflow")
    if not inspect.iscoroutinefunction(fn):
        raise DirectiveError("DIR101", f"workflow {fn.__qualname__} must be async: write `async def {fn.__name__}`")
    identity = definition_id("workflow", fn) if name is None else name
    return registry.register(Workflow(fn, id=identity, name=fn.__name__ if name is None else name, queue=queue))


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(**options: Unpack[StepOptions]) -> StepDecorator: ...
@overload
def step(
    name: str, fn: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[InlineOptions]
) -> Coroutine[Any, Any, R]: ...
@overload
def step(
    name: str, fn: Callable[[*Ts], R], /, *args: *Ts, **options: Unpack[InlineOptions]
) -> Coroutine[Any, Any, R]: ...
def step(first: Any = None, fn: Any = None, /, *args: Any, **options: Any) -> Any:  # type: ignore[misc]  # mypy cannot match an implementation with *Ts
    """Makes a step of a function, or calls a function as a step under a name.

    @step
    async def charge(card: str, cents: int) -> str: ...

    @step(max_attempts=5, timeout="10s")
    def resize(image: bytes) -> bytes: ...

    total = await step("total", sum_up, order)
    """
    if isinstance(first, str):
        if fn is None:
            raise TypeError(f"step({first!r}): which function? Write step(name, fn, *args), or @step(name=...)")
        return _call_named(first, fn, args, options)
    if fn is not None or (first is not None and options):
        raise TypeError("step takes a function, options, or a name and a function with its arguments")
    return made_step(default, first, options)


def made_step(registry: Registry, fn: Any, options: Mapping[str, Any]) -> Any:
    """The step that a function becomes in a registry; without a function, the decorator that makes it."""
    if fn is None:
        spec_of(
            "step", {key: value for key, value in options.items() if key != "name"}
        )  # wrong options: here, at their line

        def decorate(fn: Any) -> Any:
            return _make_step(registry, fn, options)

        return decorate
    return _make_step(registry, fn, options)


def _make_step(registry: Registry, fn: Any, options: Mapping[str, Any]) -> Step[..., Any]:
    _check_marked(fn, "step")
    given = dict(options)
    name = given.pop("name", None)
    if _is_nested(fn) and given.get("queue") is not None:
        raise ValueError(f"step {fn.__qualname__} lives in a function: another process could not find it for a queue")
    identity = definition_id("step", fn) if name is None else name
    made = Step[..., Any](fn, id=identity, name=fn.__name__ if name is None else name, options=given)
    return registry.register(made)


_INSTANCE: Final = "self"


def _check_marked(fn: Any, kind: str) -> None:
    if isinstance(fn, type):
        what = "functions that use it, or one of its static methods"
        raise TypeError(f"@{kind} marks a function, not the class {fn.__qualname__}: mark {what}")
    if isinstance(fn, Workflow | Step):
        raise DirectiveError("DIR121", f"{fn!r} is marked already: keep one of the two decorators")
    if isinstance(fn, staticmethod | classmethod):
        outer = "staticmethod" if isinstance(fn, staticmethod) else "classmethod"
        raise DirectiveError("DIR102", f"@{outer} belongs above @{kind}: change the order of the two lines")
    if not callable(fn) or not hasattr(fn, "__qualname__"):
        raise TypeError(f"@{kind} marks a function, not {fn!r}")
    plain: Any = inspect.unwrap(fn)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise DirectiveError("DIR110", f"{kind} {fn.__qualname__} is a generator: collect its items and return a list")
    first = next(iter(inspect.signature(fn).parameters), None)
    if first == _INSTANCE:
        raise DirectiveError(
            "DIR102",
            f"{kind} {fn.__qualname__} is an instance method, and no other process has that instance: take `self` out "
            f"and put @staticmethod above @{kind}, or make it a function that gets what it needs as arguments",
        )


def _is_nested(fn: Any) -> bool:
    return "<locals>" in fn.__qualname__
