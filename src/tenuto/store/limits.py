"""Bounds every store keeps."""

from __future__ import annotations

from typing import Final

__all__ = ["ANSWER_KEPT_MS", "BUFFERED_MESSAGES", "RECLAIM_DELAY_MAX_MS", "RECLAIM_DELAY_MS"]

BUFFERED_MESSAGES: Final = 10_000  # of one run, sent by clients and other runs
ANSWER_KEPT_MS: Final = 600_000  # how long the rejection of an update waits for its sender
RECLAIM_DELAY_MS: Final = 1_000  # doubled with every worker a run lost in a row
RECLAIM_DELAY_MAX_MS: Final = 300_000
