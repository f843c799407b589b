"""Which process on which machine this is, and whether another of this machine is still there.

A pid alone names nothing: it is used again, and every container counts its own. With the boot of the machine, the pid
namespace and the time the process began it does. Where the system tells less, nothing is claimed: the lease decides.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["UNKNOWN", "Process", "is_gone", "this_process"]

_PROC: Final = Path("/proc")


class Process(NamedTuple):
    """A process, so that it can be told from every other one, at any time, anywhere."""

    machine: str  # boot and pid namespace; empty: not known
    pid: int
    began: int  # in clock ticks since the boot


UNKNOWN: Final = Process("", 0, 0)


def this_process(proc: Path = _PROC) -> Process:
    """This one; `UNKNOWN` where the system does not tell all of it, or tells of another namespace."""
    pid = os.getpid()
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = (proc / "self/ns/pid").readlink()
        stat = _stat(proc, pid)
        if not boot or stat is None or (proc / "self").readlink() != Path(str(pid)):
            return UNKNOWN
        return Process(f"{boot} {namespace}", pid, stat[1])
    except (OSError, ValueError):
        return UNKNOWN


def is_gone(other: Process, here: Process, proc: Path = _PROC) -> bool:
    """True if a process of this machine is known to have ended. False if it lives, is elsewhere, or nobody knows."""
    if not here.machine or other.machine != here.machine or other.pid <= 0:
        return False
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # another user's: it is there, and when it began may be read all the same
    try:
        stat = _stat(proc, other.pid)
    except (OSError, ValueError):
        return False  # hidden from us, or gone just now: the next look will say
    if stat is None:
        return False
    state, began = stat
    return began != other.began or (state in "ZX" and not _has_threads(proc, other.pid))


def _stat(proc: Path, pid: int) -> tuple[str, int] | None:
    """State and start of a process. Its name comes before them, in parentheses, and may have any of its own."""
    fields = (proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 else None


def _has_threads(proc: Path, pid: int) -> bool:
    """Whether a process that nobody has waited for has threads that outlived its first one."""
    try:
        return len(list((proc / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False
