"""Named statements out of `.sql` files.

A statement begins, after an empty line, with `-- name: what it does`; more comment may follow, then the SQL. What
stands before the first name explains the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

__all__ = ["load_statements", "migrations"]

_HEAD: Final = re.compile(r"-- ([a-z][a-z0-9_]*): ")
_MIGRATION: Final = re.compile(r"(\d{4})_\w+\.sql")


def load_statements(file: str) -> Mapping[str, str]:
    """The statements of a file beside this module, by name."""
    text = (files("tenuto.store") / file).read_text("utf-8")
    found: dict[str, str] = {}
    for block in re.split(r"\n{2,}", text):
        head = _HEAD.match(block)
        if head is None:
            continue
        name = head[1]
        if name in found:
            raise ValueError(f"{file} has two statements {name!r}")
        found[name] = "\n".join(line for line in block.splitlines() if not line.startswith("--")).rstrip("; \n")
    return MappingProxyType(found)


def migrations() -> list[tuple[int, str]]:
    """All forward steps there are: number and script, in order."""
    steps = [
        (int(match[1]), step.read_text("utf-8"))
        for step in (files("tenuto.store") / "migrations").iterdir()
        if (match := _MIGRATION.fullmatch(step.name)) is not None
    ]
    return sorted(steps)
