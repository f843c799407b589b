"""Classes that inherit marked class methods: their `cls` is the subclass, so that needs an id as well."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from tenuto.codec.classes import register_class
from tenuto.errors import DirectiveError
from tenuto.model.ids import definition_id

__all__ = ["carry_on"]


def carry_on(cls: type[Any]) -> None:
    """Register every class below this one, those to come included, by its own place."""
    stock: Any = vars(cls).get("__init_subclass__")

    def __init_subclass__(sub: type[Any], **options: Any) -> None:
        if stock is not None:
            stock.__get__(None, sub)(**options)
        else:
            super(cls, sub).__init_subclass__(**options)
        _register(sub)

    cast("Any", cls).__init_subclass__ = classmethod(cast("Any", __init_subclass__))
    pending = list(cls.__subclasses__())
    while pending:
        sub = pending.pop()
        _register(sub)
        pending.extend(sub.__subclasses__())


def _register(cls: type[Any]) -> None:
    if "<locals>" in cls.__qualname__:
        return  # nobody else could find it
    with suppress(DirectiveError):  # of a source without a path: told where it is used
        register_class(definition_id("class", cls), cls)
