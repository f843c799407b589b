"""Limits of the runs of this process; both may be changed before runs are started."""

from __future__ import annotations

__all__ = ["Settings", "settings"]


class Settings:
    """Limits of every run of this process."""

    statements = 100_000  # without suspending
    variable_bytes = 16 * 1024 * 1024


settings = Settings()
