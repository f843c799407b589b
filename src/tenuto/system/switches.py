"""Short cuts that can be left out, to see that they change nothing: `TENUTO_SLOW=commits,wire`, or `all`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tenuto.errors import ConfigError

__all__ = ["Switches", "switches"]

VARIABLE = "TENUTO_SLOW"


@dataclass(frozen=True, slots=True)
class Switches:
    """The short cuts that are left out; `docs/internals/commits.md` lists them with what each is worth."""

    commits: bool = False  # stores take every commit the full way
    wire: bool = False  # statements of their own go through the driver's cursor
    replay: bool = False  # a recorded step is issued as any other, and its fact is fed
    codec: bool = False  # entries are read by the general decoder


def switches(environment: Mapping[str, str] = os.environ) -> Switches:
    """Return what the environment leaves out. Read once, where a store or a worker is made."""
    named = {word for part in environment.get(VARIABLE, "").split(",") if (word := part.strip())}
    known = {field.name for field in fields(Switches)}
    if unknown := named - known - {"all"}:
        raise ConfigError(f"{VARIABLE} names {min(unknown)!r}; known are all, {', '.join(sorted(known))}")
    return Switches(**dict.fromkeys(known if "all" in named else named, True))
