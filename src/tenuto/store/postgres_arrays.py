"""Columns of many rows as single parameters: arrays in Postgres' binary form.

The driver would choose an array's type by its first item, so that an empty one has another type than a full one and
each combination is another prepared statement; and it asks about the type of every item. A column knows its type.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, ClassVar, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

__all__ = ["Blobs", "Flags", "Integers", "Texts", "register"]

_HEAD: Final = Struct("!iiIii")  # dimensions, whether there are nulls, type of the items, how many, the first's number
_SIZE: Final = Struct("!i")
_INTEGER: Final = Struct("!iq")
_NULL: Final = _SIZE.pack(-1)
_TRUE, _FALSE = _SIZE.pack(1) + b"\x01", _SIZE.pack(1) + b"\x00"


class Column:
    """The values of one column, encoded."""

    __slots__ = ("data",)
    item_type: ClassVar[int]
    array_type: ClassVar[int]

    def _keep(self, items: list[bytes]) -> None:
        if not items:
            self.data = _HEAD.pack(0, 0, self.item_type, 0, 0)[:12]
        else:
            self.data = _HEAD.pack(1, 1, self.item_type, len(items), 1) + b"".join(items)


class Texts(Column):
    item_type, array_type = 25, 1009

    def __init__(self, values: Iterable[str | None]) -> None:
        pack = _SIZE.pack
        self._keep([_NULL if value is None else pack(len(data := value.encode())) + data for value in values])


class Blobs(Column):
    item_type, array_type = 17, 1001

    def __init__(self, values: Iterable[bytes]) -> None:
        pack = _SIZE.pack
        self._keep([pack(len(value)) + value for value in values])


class Integers(Column):
    item_type, array_type = 20, 1016

    def __init__(self, values: Iterable[int | None]) -> None:
        pack = _INTEGER.pack
        self._keep([_NULL if value is None else pack(8, value) for value in values])


class Flags(Column):
    item_type, array_type = 16, 1000

    def __init__(self, values: Iterable[object]) -> None:
        self._keep([_TRUE if value else _FALSE for value in values])


class _ColumnDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Column) -> bytes:
        return obj.data


def _dumper(column: type[Column]) -> type[Dumper]:
    return type(f"{column.__name__}Dumper", (_ColumnDumper,), {"oid": column.array_type})


_DUMPERS: Final = {column: _dumper(column) for column in (Texts, Blobs, Integers, Flags)}


def register(connection: psycopg.AsyncConnection[Any]) -> None:
    """Lets a connection take columns as parameters."""
    for column, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(column, dumper)
