"""Names that a cluster sees: of locations, our own signals and queries, memos. The server's limits are not ours."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from tenuto.kernel.location import Location, text

__all__ = [
    "CANCEL_WITHIN",
    "HOOK_IS_OPEN",
    "INTERNAL",
    "MEMO_OWNER",
    "MEMO_RUN_NO",
    "PUBLISHED",
    "ROWS",
    "activity_id",
    "id_of",
    "shown",
]

INTERNAL: Final = "tenuto."  # what our own signals and queries begin with
CANCEL_WITHIN: Final = "tenuto.cancel-within"  # a signal: how long a cancellation may take
PUBLISHED: Final = "tenuto.published"  # queries
ROWS: Final = "tenuto.rows"
HOOK_IS_OPEN: Final = "tenuto.hook-is-open"
MEMO_RUN_NO: Final = "tenuto_run_no"
MEMO_OWNER: Final = "tenuto"  # whose run it is: the task queue of the URL of the app that started it
LONGEST_ID: Final = 900  # bytes; the server's own limit is 1000
LONGEST_SUMMARY: Final = 380  # bytes of JSON; the server's own limit is 400


def activity_id(location: Location) -> str:
    """The text of a location; of a very long one, its beginning and what tells it from others."""
    return id_of(text(location))


def id_of(written: str) -> str:
    """The same of a location that is a text already."""
    if len(written.encode()) <= LONGEST_ID:
        return written
    return f"{written[:100]}…{blake2b(written.encode(), digest_size=16).hexdigest()}"


def shown(words: str) -> str:
    """What people read beside a timer or an activity, cut where the server would refuse it."""
    fits = len(words.encode("ascii", "backslashreplace")) <= LONGEST_SUMMARY
    return words if fits else f"{words[:30]}…"
