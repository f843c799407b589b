"""Keys and members that have one hash: so many of them make a small container take minutes.

Rules:

1. A dictionary with n keys of one hash takes n² comparisons to build. Hashes of texts and bytes cannot be chosen from
   outside; those of numbers, and of everything made of numbers, can.
2. More than `MOST` of one hash in one container are refused, written and read. Smaller containers are not looked at.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from tenuto.codec.refusal import Refused

__all__ = ["MOST", "WHAT", "Crowd", "crowd_of"]

MOST: Final = 64
WHAT: Final = "keys or members of one container with one hash"
_UNCHOSEN: Final = frozenset({str, bytes})
_INTEGERS: Final = frozenset({int, bool})
_MODULUS: Final = sys.hash_info.modulus  # integers below it have hashes of their own


def crowd_of(keys: Collection[Any]) -> int:
    """How many of these keys have one hash, where that is too many; else 0."""
    if len(keys) <= MOST:
        return 0
    kinds = set(map(type, keys))
    if kinds <= _UNCHOSEN or (kinds <= _INTEGERS and min(keys) > -_MODULUS and max(keys) < _MODULUS):
        return 0
    most = max(Counter(map(hash, keys)).values())
    return most if most > MOST else 0


class Crowd:
    """Counts the hashes of keys while a large container is read: it must not have been built first."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, key: Any) -> None:
        """One more key; `Refused` if too many have its hash."""
        found = hash(key)
        count = self._counts[found] = self._counts.get(found, 0) + 1
        if count > MOST:
            raise Refused(f"more than {MOST} {WHAT}")
