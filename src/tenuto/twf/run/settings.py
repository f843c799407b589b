"""Limits of the runs of this process; both may be changed before runs are started."""

from __future__ import annotations

__all__ = ["Settings", "settings"]


class Settings:
    """Limits of every run of this process."""

    units = 1_000_000  # of work without suspending; a statement is ten
    variable_bytes = 16 * 1024 * 1024


settings = Settings()
