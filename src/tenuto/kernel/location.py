"""Where an entry sits: a path of segments, and its text.

Rules:

1. A segment is what the stored key holds, with the name in place of its index: a plain `str` for the first use of
   a name in a scope, `(name, n)` for iteration n of a loop, `(name, n, sort)` for everything else that is counted.
2. Text parses back to the same location and no two locations share one (names are percent-encoded).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from tenuto.errors import InvalidNameError

__all__ = [
    "ROOT",
    "Location",
    "Segment",
    "branch",
    "check_name",
    "handler",
    "iteration",
    "name_of",
    "parse",
    "patch",
    "task",
    "text",
    "use",
]

Segment: TypeAlias = str | tuple[str, int] | tuple[str, int, int]
Location: TypeAlias = tuple[Segment, ...]

ROOT: Final[Location] = ()
NAME_BYTES: Final = 255
TASK_NAME: Final = "task"

# The third element of a counted segment.
_USE, _BRANCH, _TASK, _HANDLER, _PATCH = range(5)

_RESERVED = re.compile(r"[%/~#@\[\]!?\x00-\x1f]")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")


def check_name(name: str) -> str:
    """The name itself, if it may be one (1 to 255 UTF-8 bytes)."""
    try:
        size = len(name.encode())
    except (UnicodeEncodeError, AttributeError):
        raise InvalidNameError(f"{name!r} is not a text that UTF-8 can hold") from None
    if not 1 <= size <= NAME_BYTES:
        raise InvalidNameError(f"a name of {size} bytes" if size else "an empty name")
    return name


def use(name: str, n: int) -> Segment:
    """The (n+1)-th use of a name in its scope."""
    return (name, n, _USE) if n else name


def iteration(name: str, n: int) -> Segment:
    """Iteration n of the loop of that name."""
    return (name, n)


def branch(name: str, n: int) -> Segment:
    """Branch n of the `parallel` of that name."""
    return (name, n, _BRANCH)


def task(n: int) -> Segment:
    """The n-th asyncio task created in its scope."""
    return (TASK_NAME, n, _TASK)


def handler(name: str, n: int) -> Segment:
    """Dispatch n of a `receive`, of a message of that name."""
    return (name, n, _HANDLER)


def patch(patch_id: str) -> Segment:
    """The decision about a patch; always at the root."""
    return (patch_id, 0, _PATCH)


def name_of(segment: Segment) -> str:
    """The name a segment is made of."""
    return segment if isinstance(segment, str) else segment[0]


def text(location: Location) -> str:
    """A location as people read it: `shop/~3/charge#2`."""
    if len(location) == 1:
        first = location[0]
        return _escape(first) if type(first) is str else _segment_text(first, None)
    parts: list[str] = []
    before: str | None = None
    for segment in location:
        parts.append(_segment_text(segment, before))
        before = name_of(segment)
    return "/".join(parts)


def _segment_text(segment: Segment, before: str | None) -> str:
    name = _escape(name_of(segment))
    if isinstance(segment, str):
        return name
    # An iteration or branch is named by the construct before it; only a scope opened without one spells its name.
    spelled = "" if segment[0] == before else name
    if len(segment) == 2:
        return f"{spelled}~{segment[1]}"
    _, n, sort = segment
    match sort:
        case 0:
            return f"{name}#{n + 1}"
        case 1:
            return f"{spelled}[{n}]"
        case 2:
            return f"@{n}" if segment[0] == TASK_NAME else f"{name}@{n}"
        case 3:
            return f"{name}!{n}"
        case _:
            return f"?{name}"


_SEGMENT = re.compile(
    r"(?P<name>[^~#@\[\]!?]*)(?:~(?P<iteration>\d+)|#(?P<use>\d+)|\[(?P<branch>\d+)\]|@(?P<task>\d+)|!(?P<handler>\d+))?"
)


def parse(written: str) -> Location:
    """The location that has this text; `ValueError` if none has."""
    if not written:
        return ROOT
    segments: list[Segment] = []
    before = ""
    for part in written.split("/"):
        segment = _parse_segment(part, before)
        segments.append(segment)
        before = name_of(segment)
    location = tuple(segments)
    if text(location) != written or not all(map(_can_be, location)):
        raise ValueError(f"{written!r} is not a location")
    return location


def _can_be(segment: Segment) -> bool:
    """Whether code can come to such a place: it has a name, and its count is one."""
    return bool(name_of(segment)) and (isinstance(segment, str) or segment[1] >= 0)


def _parse_segment(part: str, before: str) -> Segment:
    if part.startswith("?"):
        return patch(_unescape(part[1:]))
    match = _SEGMENT.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not part of a location")
    name = _unescape(match["name"])
    if match["iteration"] is not None:
        return iteration(name or before, int(match["iteration"]))
    if match["branch"] is not None:
        return branch(name or before, int(match["branch"]))
    if match["task"] is not None:
        return (name or TASK_NAME, int(match["task"]), _TASK)
    if match["use"] is not None:
        return use(name, int(match["use"]) - 1)
    if match["handler"] is not None:
        return handler(name, int(match["handler"]))
    return name


@lru_cache(maxsize=1024)  # a run uses few names, and each in the key of every attempt
def _escape(name: str) -> str:
    return _RESERVED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def _unescape(written: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), written)
