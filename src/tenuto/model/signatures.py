"""The parameters of a step: does a call fit, and in which form is it recorded."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final

from tenuto.codec.values import dump

__all__ = ["Parameters"]

SHORT_CALL: Final = 8
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Parameters:
    """What is known of a function's parameters once and for all."""

    __slots__ = ("_name", "_nameable", "_positional_only", "_signature", "arity", "names")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._name = getattr(fn, "__name__", repr(fn))
        self._signature = inspect.signature(fn)
        # What is really called may be a wrapper that only takes *args: a call must be recorded in a form it takes.
        called = inspect.signature(fn, follow_wrapped=False).parameters.values()
        positional = [item for item in called if item.kind in _POSITIONAL]
        self._positional_only = sum(item.kind is Parameter.POSITIONAL_ONLY for item in positional)
        self._nameable = tuple(item.name for item in positional[self._positional_only :])
        self.arity = _arity(self._signature)
        # Encoded, where calls without keywords have nothing else in them.
        self.names = () if self._positional_only else tuple(dump(name) for name in self._nameable[:SHORT_CALL])

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, defaults: bool = False
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The same arguments if they fit, else Python's `TypeError` and whose; with `defaults`, also those left out."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}{self._signature}: {error}") from None
        if not defaults:
            return args, kwargs
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def canonical(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Equal calls in equal form: by name, except for what has none and, before a used `*args`, nothing."""
        first = self._positional_only
        named = args[first:]
        if len(named) > len(self._nameable):  # some of them have no name, so none can be given by name
            return args, kwargs
        by_name = dict(zip(self._nameable, named, strict=False))
        if not kwargs:
            return args[:first], by_name
        rest = {name: kwargs[name] for name in self._nameable[len(named) :] if name in kwargs}
        others = {name: value for name, value in kwargs.items() if name not in rest}
        return args[:first], {**by_name, **rest, **others}


def _arity(signature: inspect.Signature) -> tuple[int, int]:
    """The least and the most positional arguments of a call without keywords; (0, -1) if there is no such call."""
    least = most = 0
    for item in signature.parameters.values():
        if item.kind in _POSITIONAL:
            most += 1
            least += item.default is Parameter.empty
        elif item.kind is Parameter.VAR_POSITIONAL:
            most = sys.maxsize
        elif item.kind is Parameter.KEYWORD_ONLY and item.default is Parameter.empty:
            return 0, -1
    return least, most
