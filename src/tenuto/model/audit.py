"""The guard against I/O in workflow code: one audit hook for the process, which does nothing outside of a turn.

It is no sandbox. It turns an honest mistake into an error at the line that made it, third-party code included.
"""

from __future__ import annotations

import sys
from inspect import currentframe
from types import FrameType
from typing import Any, Final

from tenuto.errors import ForeignCallError
from tenuto.model.place import Place, here

__all__ = ["foreign_call", "in_turn", "install_guard"]

_TURNLESS: Final = frozenset({"step", "query", "side effect"})

# Audit event -> what people call it. Names that end with a dot stand for all events below them.
_EVENTS: Final[dict[str, str]] = {
    "open": "open()",
    "builtins.input": "input()",
    "time.sleep": "time.sleep()",
    "_thread.start_new_thread": "starting a thread",
    "sqlite3.connect": "sqlite3.connect()",
    "subprocess.Popen": "subprocess.Popen()",
    "urllib.Request": "urllib.request.urlopen()",
    "glob.glob": "glob.glob()",
    "glob.glob/2": "glob.glob()",
    "pathlib.Path.glob": "Path.glob()",
    "pathlib.Path.rglob": "Path.rglob()",
    **{
        f"os.{name}": f"os.{name}()"
        for name in (
            *("listdir", "scandir", "walk", "mkdir", "remove", "rename", "rmdir", "chmod", "chown", "link", "symlink"),
            *("truncate", "utime", "chdir", "putenv", "unsetenv", "system", "exec", "fork", "forkpty", "posix_spawn"),
            *("spawn", "startfile", "kill", "killpg", "lockf", "setxattr", "getxattr", "removexattr", "listxattr"),
        )
    },
}
_FAMILIES: Final = ("socket.", "http.client.", "shutil.", "tempfile.", "ftplib.", "smtplib.", "imaplib.", "poplib.")

# Code that may touch files although a workflow caused it.
_ALLOWED_MODULES: Final = (
    "importlib",
    "_frozen_importlib",
    "zipimport",
    "linecache",
    "tokenize",
    "traceback",
    "logging",
    "zoneinfo",
    "warnings",
    "weakref",
    "bdb",
    "pdb",
)

_is_installed = False


def in_turn() -> Place | None:
    """The place of workflow code that is being executed in a turn; None everywhere else, step bodies included."""
    place = here.get()
    return None if place is None or place.kind in _TURNLESS else place


def foreign_call(call: str, place: Place) -> ForeignCallError:
    """The error for a call that workflow code may not make."""
    error = ForeignCallError(call)
    error.add_note(f"in workflow {place.run.workflow_id}")
    return error


def install_guard() -> None:
    """Watch this process for I/O in turns; an audit hook cannot be taken out again."""
    global _is_installed  # once per process
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_guard)


def _guard(event: str, args: tuple[Any, ...]) -> None:
    place = here.get()
    if place is None or place.kind in _TURNLESS:
        return
    call = _EVENTS.get(event)
    if call is None:
        if not event.startswith(_FAMILIES):
            return
        call = event
    is_zone = event == "open" and "zoneinfo/" in str(args[0])  # read by C code, which leaves no frame
    if not is_zone and not _is_allowed(currentframe()):
        raise foreign_call(call, place)


def _is_allowed(frame: FrameType | None) -> bool:
    """Was this caused by an import, a traceback, a log line, time zone data or a finalizer?"""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith(_ALLOWED_MODULES):
            return name.partition(".")[0] in _ALLOWED_MODULES or name.startswith("importlib")
        frame = frame.f_back
    return False
