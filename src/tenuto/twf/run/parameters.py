"""Arguments and the parameters they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..ast import Param
from .faults import Fault
from .values import duration_of, incoming

__all__ = ["Parameters"]


class Parameters:
    """The parameters of a definition or handler."""

    __slots__ = ("_typed", "names", "texts", "what")

    def __init__(self, what: str, params: Sequence[Param]) -> None:
        self.what = what
        self.names = [param.name.name for param in params]
        types = [(index, param.type.text) for index, param in enumerate(params) if param.type is not None]
        self.texts = frozenset(self.names[index] for index, text in types if text == "string")
        self._typed = [(index, text) for index, text in types if text in ("duration", "timestamp")]

    def fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments by position; `Fault` TWF505 if they do not fit."""
        if not kwargs and len(args) == len(self.names):
            return list(args)
        given = dict(zip(self.names, args, strict=False))
        wrong = [key for key in kwargs if key not in self.names or key in given]
        given.update(kwargs)
        if wrong or len(args) > len(self.names) or len(given) != len(self.names):
            wanted = f"({', '.join(self.names)})" if self.names else "no arguments"
            said = f"{len(args)} given" if not kwargs else f"given {len(args)} and {', '.join(kwargs)}"
            raise Fault("TWF505", f"{self.what} takes {wanted}; {said}")
        return [given[name] for name in self.names]

    def receive(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Arguments from outside: copied, and a text for a duration made one."""
        fitted = [incoming(value) for value in self.fit(args, kwargs)]
        for index, text in self._typed:
            fitted[index] = _typed(fitted[index], text)
        return fitted


def _typed(value: Any, text: str) -> Any:
    if text == "duration":
        if type(value) is str:
            return duration_of(value)
        return timedelta(seconds=value) if type(value) in (int, float) else value
    if type(value) is str:
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return value
