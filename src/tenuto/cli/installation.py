"""What is installed: packages that Tenuto brings, their size, and how long the import takes. For `tenuto doctor`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

__all__ = ["Installation", "import_seconds", "installation"]

# The extra that brings the server is not one: server and dashboard are part of every installation.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IMPORT: Final = "import time; began = time.perf_counter(); import tenuto; print(time.perf_counter() - began)"


@dataclass(frozen=True, slots=True)
class Installation:
    """Tenuto and what it needs, extras left out."""

    packages: dict[str, str]  # with their versions
    size: int  # bytes, compiled files included


def installation(name: str = "tenuto") -> Installation:
    """What installing a package brings, as far as it is installed here."""
    found = {item.metadata["Name"]: item for item in _with_needed(name, set())}
    size = sum(_size(item) for item in found.values())
    return Installation({known: item.version for known, item in sorted(found.items())}, size)


def _with_needed(name: str, seen: set[str]) -> Iterator[Distribution]:
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    seen.add(key)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return  # needed only on other systems or versions of Python
    yield found
    for requirement in found.requires or ():
        needed, _, marker = requirement.partition(";")
        match = _NAME.match(needed)
        if match is not None and "extra" not in marker:
            yield from _with_needed(match[0], seen)


def _size(item: Distribution) -> int:
    files = [Path(str(item.locate_file(file))) for file in item.files or ()]
    if item.metadata["Name"] == "tenuto" and not any(file.name == "errors.py" for file in files):
        files = list(Path(__file__).parents[1].rglob("*"))  # installed to be edited: the files are elsewhere
    return sum(file.stat().st_size for file in files if file.is_file())


def import_seconds(times: int = 3) -> float:
    """How long `import tenuto` takes in a new process: the best of a few."""
    best = 3600.0
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)  # noqa: S603
        best = min(best, float(done.stdout))
    return best
