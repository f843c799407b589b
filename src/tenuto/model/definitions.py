"""Workflows and steps: the objects that `@workflow` and `@step` make of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, update_wrapper
from inspect import CO_COROUTINE
from types import CodeType, FunctionType, MappingProxyType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
)

from tenuto.codec.classes import register_definition_codec
from tenuto.codec.values import dump, dump_call, dump_plain_call
from tenuto.errors import NestingError, NotInWorkflowError
from tenuto.kernel.location import check_name
from tenuto.kernel.operations import StepSpec
from tenuto.model.ids import definition_hash, static_names
from tenuto.model.options import StepOptions, spec_named, spec_of
from tenuto.model.place import Place, here, refuse
from tenuto.model.providers import DefinitionProvider
from tenuto.model.registry import current, default
from tenuto.model.signatures import Parameters
from tenuto.model.steps import Implementation, StepCall, durable, is_async, is_plain, plain_call

__all__ = [
    "Bound",
    "ContinueAsNew",
    "Step",
    "Workflow",
    "definition_of",
    "encode_call",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
V = TypeVar("V")
R_co = TypeVar("R_co", covariant=True)

_NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})  # one for all: imports make steps by the hundred


class ContinueAsNew:
    """Returned by a workflow: go on as a fresh run under the same id, with these arguments and an empty history.

    @workflow
    async def poll(seen: int) -> None | ContinueAsNew:
        ...
        return ContinueAsNew(seen + 1)
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: tuple[Any, ...] = args
        self.kwargs: Mapping[str, Any] = kwargs

    def __repr__(self) -> str:
        return f"ContinueAsNew(*{self.args!r}, **{dict(self.kwargs)!r})"


class Bound(Generic[R_co]):
    """A workflow or step together with its arguments, keyword arguments included; made by `.bind(...)`."""

    __slots__ = ("args", "definition", "kwargs")

    def __init__(
        self, definition: Workflow[..., R_co] | Step[..., R_co], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.definition = definition
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return f"{self.definition!r}.bind(*{self.args!r}, **{dict(self.kwargs)!r})"


def encode_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Arguments as a run's input and a step's record hold them."""
    return dump_call(args, kwargs)


def _look_like(wrapper: object, fn: Callable[..., Any]) -> None:
    """Name, doc, module, signature and `iscoroutinefunction` of the function, for those who inspect the object.

    What this does for a function that wraps none is written out in both classes: there Python learns where the
    attributes of that one class are, and storing them takes half of the time.
    """
    looks = cast("Any", wrapper)
    update_wrapper(looks, fn, updated=())
    plain: Any = inspect.unwrap(fn)
    code = getattr(plain, "__code__", None)
    if code is not None:
        looks.__code__ = _as_coroutine(code)
        looks.__defaults__ = getattr(plain, "__defaults__", None)
        looks.__kwdefaults__ = getattr(plain, "__kwdefaults__", None)


def _as_coroutine(code: CodeType) -> CodeType:
    """What inspect takes for a function: with the coroutine flag also where that is a `def`, because calling the
    object gives a coroutine.
    """
    flags = code.co_flags
    return code if flags & CO_COROUTINE else code.replace(co_flags=flags | CO_COROUTINE)


# --- workflows


class Workflow(Generic[P, R_co]):
    """A function that is executed durably. Start it by `app.start(...)` or `spawn(...)`; calling it raises."""

    sort: Literal["workflow"] = "workflow"
    provider: DefinitionProvider | None = None  # of another language's; None: it is a Python function
    id: str
    name: str
    queue: str
    fn: Callable[P, Coroutine[Any, Any, R_co | ContinueAsNew]]

    def __init__(
        self,
        fn: Callable[P, Coroutine[Any, Any, R_co | ContinueAsNew]],
        *,
        id: str,  # noqa: A002  # the public name of it
        name: str,
        queue: str = "default",
    ) -> None:
        if type(fn) is FunctionType and not hasattr(fn, "__wrapped__"):
            self.__module__, self.__name__, self.__qualname__ = fn.__module__, fn.__name__, fn.__qualname__
            self.__doc__, self.__annotations__, self.__wrapped__ = fn.__doc__, fn.__annotations__, fn
            code = fn.__code__ if fn.__code__.co_flags & CO_COROUTINE else _as_coroutine(fn.__code__)
            self.__code__, self.__defaults__, self.__kwdefaults__ = code, fn.__defaults__, fn.__kwdefaults__
        else:
            _look_like(self, fn)
        self.fn = fn
        self.id = check_name(id)
        self.name = check_name(name)
        self.queue = check_name(queue)
        self.queries: dict[str, Callable[..., Any]] = {}
        self.described: tuple[object, str, frozenset[str] | None] | None = None  # see definition_of
        self._parameters: Parameters | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        place = here.get()
        ways = "start a run of it by app.start(...), or spawn(...) in a run; .fn(...) runs its body as plain code"
        if place is None or place.kind == "step":
            raise NotInWorkflowError(f"workflow {self.name!r} was called; {ways}")
        if not place.open:
            raise refuse(f"workflow {self.name!r}", place)
        raise NestingError(f"workflow {self.name!r} was called in a run; {ways}")

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """The workflow with its arguments; the way to pass keyword arguments to `app.start` and `spawn`."""
        self.accept(args, kwargs)
        return Bound(self, args, kwargs)

    def accept(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuses arguments that do not fit, with Python's own `TypeError`, or as its provider says it."""
        if self.provider is not None:
            return self.provider.accept(self, args, kwargs)
        if self._parameters is None:
            self._parameters = Parameters(self)
        least, most = self._parameters.arity
        if kwargs or not least <= len(args) <= most:
            try:
                self._parameters.bind(args, kwargs)
            except TypeError as error:
                raise TypeError(f"workflow {self.name!r}: {error}") from None

    def query(self, name: str, /) -> Callable[[Callable[Concatenate[Any, Q], V]], Callable[Concatenate[Any, Q], V]]:
        """Decorates a plain function of the published state that answers `run.query(name, ...)`.

        @checkout.query("status")
        def status(state: dict[str, str] | None) -> str:
            return "unknown" if state is None else state["status"]
        """
        check_name(name)

        def register(fn: Callable[Concatenate[Any, Q], V]) -> Callable[Concatenate[Any, Q], V]:
            if not callable(fn):  # pyright: ignore[reportUnnecessaryComparison]  # callers without a type checker
                raise TypeError(f"query {name!r} is a function of the published state, not {fn!r}")
            if inspect.iscoroutinefunction(fn):
                raise TypeError(f"query {name!r} is a plain def: it runs in the asking process and awaits nothing")
            self.queries[name] = fn
            return fn

        return register

    def __reduce__(self) -> str:
        return cast("str", cast("Any", self).__qualname__)

    def __repr__(self) -> str:
        return f"<workflow {self.id}>"


def definition_of(workflow: Workflow[..., Any]) -> tuple[str, frozenset[str] | None]:
    """The hash of a workflow's definition, and every name it can issue (None: not known)."""
    fn = workflow.fn
    known = workflow.described
    if known is None or known[0] is not fn:  # reading a module's source takes longer than most turns
        known = workflow.described = fn, definition_hash(fn), static_names(fn)
    return known[1], known[2]


# --- steps


class Step(Generic[P, R_co]):
    """A function whose result is recorded. Called in a run it is a durable operation, elsewhere a plain call."""

    sort: Literal["step"] = "step"
    id: str
    name: str
    fn: Callable[P, Any]

    def __init__(
        self,
        fn: Callable[P, Any],
        *,
        id: str,  # noqa: A002  # the public name of it
        name: str,
        options: Mapping[str, Any] | None = None,
        closure: Callable[[], Mapping[str, Any]] | None = None,
        remote: bool = False,
    ) -> None:
        """`closure`: gives the captured values at each call. `remote`: attempts run what is registered under the id."""
        if type(fn) is FunctionType and not hasattr(fn, "__wrapped__"):
            self.__module__, self.__name__, self.__qualname__ = fn.__module__, fn.__name__, fn.__qualname__
            self.__doc__, self.__annotations__, self.__wrapped__ = fn.__doc__, fn.__annotations__, fn
            code = fn.__code__ if fn.__code__.co_flags & CO_COROUTINE else _as_coroutine(fn.__code__)
            self.__code__, self.__defaults__, self.__kwdefaults__ = code, fn.__defaults__, fn.__kwdefaults__
        else:
            _look_like(self, fn)
        self.fn = fn
        self.id = check_name(id)
        self.name = check_name(name)
        self.closure = closure
        self.given: Mapping[str, Any] = options or _NO_OPTIONS
        if self.given:
            self.spec = spec_of(name, self.given)  # at once: what is wrong with options is said where they stand
        self._remote = remote or closure is not None
        self._seen: Parameters | None = None  # made by the first call: importing a module makes many steps, calls few
        self._known: Implementation | None = None
        # Calls with this many positional arguments and nothing else need no look at the signature.
        self._least, self._most = 0, -1

    @cached_property
    def spec(self) -> StepSpec:
        """Its options, checked; made by the first call where there are none."""
        return spec_named(self.name)

    @property
    def _parameters(self) -> Parameters:
        if self._seen is None:
            self._seen = Parameters(self.fn)
            if self.closure is None:
                self._least, self._most = self._seen.arity
        return self._seen

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        place = here.get()
        if place is None or not place.open:
            return self._elsewhere(place, args, kwargs)
        if not kwargs and self._least <= len(args) <= self._most and is_plain(args):
            return durable(self.spec, StepCall(self, args))
        return durable(self.spec, self.call(args, kwargs))

    def _elsewhere(
        self, place: Place | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        if place is not None and place.kind != "step":
            raise refuse(f"step {self.name!r}", place)
        return plain_call(self.fn, args, kwargs)

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepCall:
        """This call, encoded now; a call that does not fit the signature is Python's own `TypeError`."""
        return StepCall(
            self, None, self.record(*self._parameters.bind(args, kwargs, defaults=self.closure is not None))
        )

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        """The encoded call of plain arguments, as `record` gives it."""
        names = (self._seen or self._parameters).names
        return dump_plain_call(names, args) if len(args) <= len(names) else self.record(args, {})

    def record(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The encoded call, in one form however it was written: by name wherever a parameter has one."""
        args, kwargs = self._parameters.canonical(args, kwargs)
        if self.closure is None:
            return encode_call(args, kwargs)
        return dump([list(args), dict(kwargs), dict(self.closure())])

    def implementation(self) -> Implementation:
        """The function that attempts run, and whether it is async."""
        if self._remote:
            registered = current().get(self.id) or default.get(self.id)  # there the import hook has put it
            if registered is not None:
                return registered.fn, is_async(registered.fn)
        known = self._known
        if known is None or known[0] is not self.fn:  # a test may have put another in its place
            known = self._known = self.fn, is_async(self.fn)
        return known

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """The step with its arguments; the way to pass keyword arguments to `Task.run`."""
        self._parameters.bind(args, kwargs)
        return Bound(self, args, kwargs)

    def options(self, **options: Unpack[StepOptions]) -> Step[P, R_co]:
        """The same step with other options; `name` then changes what it is called in history, not its id.

        await charge.options(max_attempts=1, timeout="10s")(card, cents)
        """
        given = dict(self.given)
        if "retry" in options:  # replaces what the step said about retrying, in whichever form
            given = {
                key: value
                for key, value in given.items()
                if key not in ("max_attempts", "backoff", "backoff_max", "no_retry")
            }
        elif options.keys() & {"max_attempts", "backoff", "backoff_max", "no_retry"}:
            given.pop("retry", None)
        given.update(cast("dict[str, Any]", options))
        name = cast("str", given.pop("name", self.name))
        return Step(self.fn, id=self.id, name=name, options=given, closure=self.closure, remote=self._remote)

    def __reduce__(self) -> str:
        return cast("str", cast("Any", self).__qualname__)

    def __repr__(self) -> str:
        return f"<step {self.id}>"


# --- steps and workflows as values: stored by id, found again among what is registered


def _describe_step(step: Step[..., Any]) -> tuple[str, dict[str, Any] | None]:
    return step.id, None if step.closure is None else dict(step.closure())


def _describe_workflow(workflow: Workflow[..., Any]) -> tuple[str, None]:
    return workflow.id, None


def _find(definition_id: str, captured: dict[str, Any] | None) -> Any:
    found = current().get(definition_id)
    if found is None:
        raise LookupError(definition_id)
    if captured is None or not isinstance(found, Step):
        return found
    known = cast("Step[..., Any]", found)
    values = captured
    return Step[..., Any](known.fn, id=known.id, name=known.name, options=known.given, closure=lambda: values)


register_definition_codec(Step, _describe_step, _find)
register_definition_codec(Workflow, _describe_workflow, _find)
