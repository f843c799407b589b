"""A program's values as a Python function wants them: maps become dataclasses where its annotations say so."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias, Union, cast, get_args, get_origin

from .faults import Fault
from .values import kind_of

__all__ = ["Fitted", "fitter"]

Convert: TypeAlias = Callable[[Any], Any]
Fitted: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], tuple[list[Any], dict[str, Any]]]


def fitter(function: Callable[..., Any]) -> Fitted:
    """Makes arguments fit a function: converts by its annotations, refuses what it does not take (TWF505)."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        signature: inspect.Signature | None = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None  # a builtin without one takes what it gets
    hints = _hints(function)
    converts = {key: _converter(hint) for key, hint in hints.items() if key != "return"}
    if signature is None:
        return lambda args, kwargs: (list(args), dict(kwargs))
    if not any(convert is not _same for convert in converts.values()):
        converts = {}
    known: inspect.Signature = signature

    def fit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            bound = known.bind(*args, **kwargs)
        except TypeError as error:
            raise Fault("TWF505", f"the arguments do not fit {name}: {error}") from None
        if not converts:
            return list(args), dict(kwargs)
        for key, parameter in known.parameters.items():
            if key not in bound.arguments or key not in converts:
                continue
            value = bound.arguments[key]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[key] = tuple(converts[key](item) for item in value)
            elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                bound.arguments[key] = converts[key](value)
        return list(bound.args), dict(bound.kwargs)

    return fit


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function if hasattr(function, "__annotations__") else getattr(function, "__call__", function)  # noqa: B004  # its annotations, not whether it can be called
    try:
        return typing.get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        return {}  # annotations that name what is not there say nothing


def _same(value: Any) -> Any:
    return value


@lru_cache(maxsize=1024)
def _dataclass_hints(cls: type) -> dict[str, Any]:
    return _hints(cls)


def _converter(hint: Any) -> Convert:
    origin = get_origin(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _to_dataclass(hint)
    if hint is timedelta:
        return lambda value: timedelta(seconds=value) if type(value) in (int, float) else value
    if hint is datetime:
        return _to_datetime
    if origin in (Union, types.UnionType):
        return _union([_converter(option) for option in get_args(hint) if option is not type(None)])
    args = get_args(hint)
    if origin in (list, Sequence, tuple, set, frozenset) or (
        isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str
    ):
        return _sequence(cast("type", origin), args)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
        inner = _converter(args[1])
        if inner is _same:
            return _same
        return lambda value: (
            {key: inner(item) for key, item in cast("dict[str, Any]", value).items()}
            if isinstance(value, dict)
            else value
        )
    if hint in (tuple, set, frozenset):
        return _made_of_list(hint)
    return _same


def _same_list(items: Any) -> Any:
    return list(items)


def _made_of_list(sort: Callable[[Any], Any]) -> Convert:
    return lambda value: sort(value) if isinstance(value, list) else value


def _sequence(origin: type, args: tuple[Any, ...]) -> Convert:
    inner = [_converter(arg) for arg in args if arg is not Ellipsis]
    target: Callable[[Any], Any] = origin if origin in (tuple, set, frozenset) else _same_list
    if not inner or (target is _same_list and inner[0] is _same):
        return _same if target is _same_list else _made_of_list(target)
    each = len(inner) == 1

    def convert(value: Any) -> Any:
        if value.__class__ is not list:
            return value
        items: list[Any] = value
        converted = [inner[0 if each else min(n, len(inner) - 1)](item) for n, item in enumerate(items)]
        return target(converted)  # pyright: ignore[reportUnknownVariableType]  # the user's own

    return convert


def _union(options: list[Convert]) -> Convert:
    if all(option is _same for option in options):
        return _same

    def convert(value: Any) -> Any:
        if value is None:
            return None
        for option in options:
            if option is not _same:
                try:
                    return option(value)
                except Fault:
                    continue
        return value

    return convert


def _to_datetime(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return value


def _to_dataclass(cls: type) -> Convert:
    def convert(value: Any) -> Any:
        if value is None or isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise Fault("TWF505", f"a {cls.__name__} is made of a map, not of {kind_of(value)}")
        entries = cast("dict[str, Any]", value)
        hints = _dataclass_hints(cls)
        given: dict[str, Any] = {}
        for field in fields(cast("Any", cls)):
            if not field.init:
                continue
            if field.name in entries:
                given[field.name] = _converter(hints.get(field.name))(entries[field.name])
            elif field.default is MISSING and field.default_factory is MISSING:
                raise Fault("TWF505", f"a {cls.__name__} needs the field {field.name}")
        return cls(**given)

    return convert
