"""How reading and writing of values say what is wrong where, without carrying a path along while all is well."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

__all__ = ["Refused", "is_dict", "is_list", "key_part", "what_instead"]

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


# --- what to write instead

# By name, since most programs never load these modules; of the classes it is derived from the nearest counts.
_INSTEAD: Final = {
    "pathlib:PurePath": "store str(path), and make a Path of it where it is needed",
    "collections:deque": "store list(x)",
    "builtins:range": "store list(x), or its start, stop and step",
    "collections:OrderedDict": "store dict(x): dicts keep their order",
    "builtins:dict": "store dict(x)",
    "builtins:list": "store list(x)",
    "builtins:tuple": "store tuple(x)",
    "builtins:set": "store set(x)",
    "builtins:frozenset": "store frozenset(x)",
    "builtins:int": "store int(x): a subclass would come back as another type",
    "builtins:float": "store float(x): a subclass would come back as another type",
    "builtins:str": "store str(x): a subclass would come back as another type",
    "builtins:bytes": "store bytes(x): a subclass would come back as another type",
    "builtins:memoryview": "store bytes(x)",
    "collections.abc:Iterator": "store list(x)",
    "builtins:generator": "store list(x)",
    "builtins:complex": "store [x.real, x.imag]",
    "fractions:Fraction": "store str(x), or its numerator and denominator",
}


def what_instead(cls: type[Any]) -> str:
    """What helps with a value of this class."""
    for base in cls.__mro__:
        found = _INSTEAD.get(f"{base.__module__}:{base.__qualname__}")
        # Python 3.13 keeps paths in a package of their own.
        found = found or _INSTEAD.get(f"{base.__module__.partition('.')[0]}:{base.__qualname__}")
        if found is not None:
            return found
    name = cls.__qualname__.rpartition(".")[2]
    how = f"serializable({name}, serialize=str, deserialize={name})"
    return f"store a type listed in the reference made of it, or say how {cls.__qualname__} is stored: {how}"
