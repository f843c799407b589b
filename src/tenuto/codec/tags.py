"""The numbers of the CBOR tags a stored value may carry. There are no others."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BIG_NEGATIVE",
    "BIG_POSITIVE",
    "CLASS",
    "DATE",
    "DECIMAL",
    "DEFINITION",
    "ENUM",
    "EXCEPTION",
    "FROZENSET",
    "LOCAL_TIME",
    "OBJECT",
    "PAYLOAD",
    "SET",
    "TIME",
    "TIMEDELTA",
    "TIMESTAMP",
    "TUPLE",
    "UUID",
]

# Registered with IANA.
TIMESTAMP: Final = 0
BIG_POSITIVE: Final = 2
BIG_NEGATIVE: Final = 3
UUID: Final = 37
SET: Final = 258
TIMEDELTA: Final = 1002
DATE: Final = 1004

# Ours, in a range nobody has registered.
TUPLE: Final = 29696
FROZENSET: Final = 29697
ENUM: Final = 29698
OBJECT: Final = 29699
EXCEPTION: Final = 29700
LOCAL_TIME: Final = 29701
TIME: Final = 29702
PAYLOAD: Final = 29703
DECIMAL: Final = 29704
DEFINITION: Final = 29705
CLASS: Final = 29706
