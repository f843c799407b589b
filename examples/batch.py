"""Fan-out: all items of a batch side by side, and an honest account of those that failed.

`parallel` runs every branch to its end whatever happens to the others; a branch that raised leaves `Failed(error)` in
its place. After a crash, items that were done stay done.
"""

from __future__ import annotations

from functools import partial

from tenuto import Failed, FatalError, parallel, step, workflow

archive: dict[str, int] = {}  # stands for where the results go


class BatchError(Exception):
    """Some items of a batch could not be processed: why, by item."""

    def __init__(self, failures: dict[str, str], processed: int) -> None:
        super().__init__(f"{len(failures)} of {len(failures) + processed} items failed")
        self.failures = failures
        self.processed = processed


@step
async def process(text: str) -> int:
    if not text.strip():
        raise FatalError("there is nothing in it")  # no further attempt: it would be as empty
    archive[text] = len(text.split())
    return archive[text]


@workflow
async def process_batch(texts: list[str]) -> int:
    """The number of words in all; `BatchError` if an item failed."""
    counts = await parallel([partial(process, text) for text in texts], limit=10)

    failures = {
        text: str(count.error.__cause__) for text, count in zip(texts, counts, strict=True) if isinstance(count, Failed)
    }
    good = [count for count in counts if not isinstance(count, Failed)]
    if failures:
        raise BatchError(failures, len(good))
    return sum(good)
