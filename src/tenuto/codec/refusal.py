"""How reading and writing of values say what is wrong where, without carrying a path along while all is well."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["Refused", "is_dict", "is_list", "key_part"]

_SHOWN = 40  # characters of a key in a path


class Refused(Exception):
    """A value or its bytes cannot be handled. Containers add their part of the path while it passes through them."""

    def __init__(self, why: str, type_name: str = "", fix: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.type_name = type_name
        self.fix = fix
        self.parts: list[str] = []  # innermost first

    @property
    def path(self) -> str:
        """Where it happened: `$.items[3].owner`."""
        return "$" + "".join(reversed(self.parts))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is exactly a list."""
    return type(value) is list


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether a value is exactly a dict."""
    return type(value) is dict


def key_part(key: Any) -> str:
    """A field's or map key's part of a path. Only plain keys are shown: a `repr` of the user's may do anything."""
    if type(key) is str:
        shown = key if len(key) <= _SHOWN else key[:_SHOWN] + "…"
        return f".{key}" if key.isidentifier() and len(key) <= _SHOWN else f"[{shown!r}]"
    if type(key) in (float, bool, type(None)) or (type(key) is int and abs(key) < 1 << 64):
        return f"[{key!r}]"
    return f"[{type(key).__name__}]"
