"""The file of a SQLite store and its folder: made for their user only, and not where others can exchange them."""

from __future__ import annotations

import logging
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenuto.errors import StoreRefusedError, StoreUnavailableError

__all__ = ["DEFAULT_FOLDER", "check_folder", "is_log_beside", "make_file", "make_private", "read_only_error"]

log = logging.getLogger("tenuto.store")

DEFAULT_FOLDER: Final = Path(".tenuto")
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


def make_private(directory: Path) -> None:
    """Makes a directory that only its user can look into, and that is still there after power loss (P1)."""
    if directory.is_dir():
        return
    make_private(directory.parent)
    directory.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    if sys.platform != "win32":  # where a directory cannot be synced
        above = os.open(directory.parent, os.O_RDONLY)
        try:
            os.fsync(above)
        finally:
            os.close(above)


def make_file(path: Path) -> None:
    """Makes the file that only its user can read, if it is not there. SQLite would let everybody read what it makes.

    Its log and its index get the same permissions by SQLite.
    """
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))


def check_folder(path: Path) -> None:
    """Refuses the folder nobody has named where others may have put it, or can exchange what is in it; warns of others.

    The default is looked for wherever a command is called: in a folder that was unpacked or checked out, for example.
    """
    folder = path.parent
    is_default = folder == DEFAULT_FOLDER
    if sys.platform == "win32" or not folder.is_dir():
        return
    found = folder.stat()
    writers = stat.S_IWGRP | stat.S_IWOTH if is_default else stat.S_IWOTH
    if folder.is_symlink():
        danger = f"is a link to {folder.resolve()}"
    elif is_default and os.geteuid() not in (0, found.st_uid):
        danger = "belongs to another user"
    elif found.st_mode & writers and (is_default or not found.st_mode & stat.S_ISVTX):
        danger = "can be written by others"
    else:
        return
    if not is_default:
        log.warning("the folder of %s %s: who can exchange the file has all runs in hand", path, danger)
        return
    raise StoreRefusedError(
        f"the folder {folder} {danger}, so what is in it need not be yours; if you trust it,"
        f" {'name the file with its full path' if folder.is_symlink() else f'chmod 700 {folder}'}, or move it away"
    )


def is_log_beside(path: Path) -> bool:
    """Whether there is a write-ahead log that may have something the file has not."""
    return path.with_name(path.name + "-wal").exists()


def read_only_error(path: Path) -> StoreUnavailableError:
    """For those who would write, where that is not allowed."""
    error = StoreUnavailableError(f"{path}: the file is read-only, or its folder is")
    error.fix = "make both writable for this user, or name another store; commands that only look work on it as it is"
    return error
