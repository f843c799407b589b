"""The values of a filter, as the statements that list and count runs take them."""

from __future__ import annotations

import json
from typing import Any

from tenuto.store.port import STUCK, RunFilter

__all__ = ["filter_values", "list_values"]


def filter_values(which: RunFilter) -> dict[str, Any]:
    """Each by its name in the statements."""
    return {
        "statuses": None if which.statuses is None else list(which.statuses),
        "stuck": which.status == STUCK,
        "target": which.target,
        "name": which.name,
        "since": which.since,
        "attributes": json.dumps(dict(which.attributes)),
    }


def list_values(which: RunFilter) -> dict[str, Any]:
    """Those of a page of a list."""
    at, number = which.after if which.after is not None else (None, None)
    return {**filter_values(which), "limit": which.limit, "after_at": at, "after_no": number}
