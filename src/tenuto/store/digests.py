"""Tells the schema that this version makes from every other one, also where their numbers are equal.

A store keeps the digest of the scripts that made its tables and of what the database then said it has. Computed again
at open, it differs if the tables were made by another state of the same version, or changed by hand. What others have
added to the database, an index for their own reports for example, does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

from tenuto.errors import StoreRefusedError

__all__ = ["digest_of", "names_of", "plain", "refuse_foreign", "refuse_other"]

_NAME: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX|FUNCTION) (\w+)")
_COMMENT: Final = re.compile(r"--[^\n]*")


def plain(sql: str) -> str:
    """A text of SQL without its comments and its layout."""
    return " ".join(_COMMENT.sub("", sql).split())


def names_of(scripts: Iterable[str]) -> list[str]:
    """The tables, indexes and functions that migrations make."""
    return sorted({name for script in scripts for name in _NAME.findall(plain(script))})


def digest_of(scripts: Iterable[str], catalog: Iterable[Sequence[Any]]) -> str:
    """Of the migrations, and of what a database has of what they make, whatever order it says that in."""
    entries = sorted(repr(tuple(plain(field) if isinstance(field, str) else field for field in row)) for row in catalog)
    return sha256("\n".join([*map(plain, scripts), *entries]).encode()).hexdigest()


def refuse_foreign(place: str, catalog: Iterable[Sequence[Any]]) -> None:
    """`StoreRefusedError` if a database that is no store of ours has things by the names of ours."""
    taken = sorted({str(row[1]) for row in catalog})
    if taken:
        raise StoreRefusedError(
            f"{place} is not a Tenuto store, and has {', '.join(taken[:3])} of its own;"
            " give another file, database or schema"
        )


def refuse_other(place: str, version: int, stored: str | None, computed: str) -> None:
    """`StoreRefusedError` if a store of our version is not as we would have made it."""
    if stored == computed:
        return
    raise StoreRefusedError(
        f"{place}: it was made by another state of version {version}, or its tables or indexes were changed by hand;"
        " export the runs with the code that made it, or begin anew with another store"
    )
