"""Python functions under the names that programs call them by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from tenuto.kernel.location import check_name
from tenuto.model.definitions import Step, Workflow
from tenuto.model.ids import short_name
from tenuto.model.options import StepOptions, spec_of

from ..checks import Bound
from .conversion import Fitted, fitter

__all__ = ["Bindings", "BoundActivity", "BoundFunction"]

P = ParamSpec("P")
R = TypeVar("R")


class BoundFunction:
    """A host function: what `db.get(…)` in a program calls."""

    __slots__ = ("_fit", "fn", "name", "pure")

    def __init__(self, name: str, fn: Callable[..., Any], *, pure: bool) -> None:
        self.name = name
        self.fn = fn
        self.pure = pure  # the same answer on replay, no effect: workflow code and queries may call it
        self._fit: Fitted | None = None

    @property
    def fit(self) -> Fitted:
        if self._fit is None:  # reading annotations takes a while, and importing bindings makes many
            self._fit = fitter(self.fn)
        return self._fit


class BoundActivity(BoundFunction):
    """A function that does what an activity stands for."""

    __slots__ = ("options",)

    def __init__(self, name: str, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        super().__init__(name, fn, pure=False)
        self.options = options


class Bindings:
    """The Python side of TWF programs: activities and host functions by name.

        b = Bindings()

        @b.activity("ChargeCard")
        async def charge(order: Order) -> Receipt: ...        # maps become dataclasses, and back

        @b.function("tax.rate", pure=True)
        def rate(country: str) -> float: ...

    A function bound to an activity takes the place of the activity's own statements. Workflow code and queries may
    call only functions that are `pure`: they give the same on replay and have no effect.
    """

    def __init__(self, workflows: Iterable[Workflow[..., Any]] = ()) -> None:
        self.activities: dict[str, BoundActivity] = {}
        self.functions: dict[str, BoundFunction] = {}
        self.workflows: list[Workflow[..., Any]] = list(workflows)  # Python workflows that programs may call

    def activity(self, name: str, /, **options: Unpack[StepOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorates the function that does what the activity of this name stands for.

        `options` are those of a step; what the program says about the activity goes before them.
        """
        given = cast("dict[str, Any]", dict(options))
        spec_of(check_name(name), given)

        def bind(fn: Callable[P, R]) -> Callable[P, R]:
            plain: Callable[..., Any] = fn
            its = given
            if isinstance(plain, Step):
                known = cast("Step[..., Any]", plain)
                plain, its = known.fn, {**known.given, **given}
            self._check("activity", name, plain, self.activities)
            self.activities[name] = BoundActivity(name, plain, its)
            return fn

        return bind

    def function(self, name: str, /, *, pure: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorates the function that programs call by this name, `db.get` for example."""
        check_name(name)

        def bind(fn: Callable[P, R]) -> Callable[P, R]:
            self._check("function", name, fn, self.functions)
            self.functions[name] = BoundFunction(name, fn, pure=pure)
            return fn

        return bind

    def workflow(self, workflow: Workflow[P, R]) -> Workflow[P, R]:
        """Says that programs call this Python workflow; usable as a decorator above `@workflow`."""
        self.workflows.append(workflow)
        return workflow

    def bound(self) -> Bound:
        """The names, as the checks of the language want them."""
        return Bound(
            frozenset(self.activities),
            {name: function.pure for name, function in self.functions.items()},
            frozenset(name for workflow in self.workflows for name in (workflow.name, short_name(workflow.id))),
            _signatures(self.activities),
            _signatures(self.functions),
        )

    def include(self, other: Bindings) -> None:
        """Takes over everything bound in another one."""
        self.activities.update(other.activities)
        self.functions.update(other.functions)
        self.workflows.extend(other.workflows)

    def _check(self, sort: str, name: str, fn: object, known: Mapping[str, BoundFunction]) -> None:
        if not callable(fn):
            raise TypeError(f"{sort} {name!r} is bound to a function, not to {fn!r}")
        before = known.get(name)
        if before is not None and before.fn is not fn and _origin(before.fn) != _origin(fn):
            raise ValueError(f"{sort} {name!r} is bound to {_origin(before.fn)} already")


def _signatures(functions: Mapping[str, BoundFunction]) -> dict[str, inspect.Signature]:
    found: dict[str, inspect.Signature] = {}
    for name, function in functions.items():
        with suppress(TypeError, ValueError):  # a builtin without one takes what it gets
            found[name] = inspect.signature(function.fn)
    return found


def _origin(fn: object) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"
