"""The error that says how code and history differ, and what to do about it.

Rules:

1. Unchanged code gives `NondeterminismError`, changed code `HistoryDivergedError`.
2. An exception of the code comes first: the code never came to the place, so `removed` would be the wrong advice.
3. An entry that another version of the code inserted is named as such: only that version, or `removed`, accepts it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from tenuto.errors import HistoryDivergedError, NondeterminismError
from tenuto.kernel.history import Node, describe
from tenuto.kernel.location import name_of
from tenuto.kernel.records import Flag, Patch

__all__ = ["Divergence"]

_MESSAGE: Final = 200  # characters of an exception's own text


class Divergence:
    """Makes the error that says what does not fit, and how to mend it."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict

    def at(self, node: Node, asked: str) -> HistoryDivergedError | NondeterminismError:
        """History has something at `node`; the code asked for something else."""
        recorded = describe(node.entry) if node.entry is not None else "nothing"
        return self.error(node, recorded, asked)

    def error(
        self, node: Node, recorded: str, asked: str, raised: BaseException | None = None
    ) -> HistoryDivergedError | NondeterminismError:
        """History has that at `node`; `raised`: the exception by which the code ended before it came there."""
        fix = "" if self.strict else self._fix(node)
        if node.entry is not None and node.entry.flags & Flag.INSERTED:
            recorded = f"{recorded} that another version of the code inserted"
            fix = f"deploy that version again, or write {_removed(node)} in its place"
        why = ""
        if raised is not None:
            why = _raised(raised)
            fix = "mend what raised it; the run resumes after the deploy"
        sort = NondeterminismError if self.strict else HistoryDivergedError
        error = sort(node.text, recorded, asked, fix, raised=why)
        error.__cause__ = raised
        return error

    def _fix(self, node: Node) -> str:
        kind = node.entry.kind if node.entry is not None else None
        name = name_of(node.segment)
        if type(kind) is Patch:
            return f'put patched("{name}") back, or deprecate_patch("{name}"); the run resumes after the deploy'
        return f"put it back under its old name, replace it by {_removed(node)}, or guard the change by patched(...)"


def _removed(node: Node) -> str:
    return f'removed("{name_of(node.segment)}", "{describe(node.entry, bare=True)}")'


def _raised(error: BaseException) -> str:
    """Class, text, file and line of an exception of workflow code."""
    text = str(error).partition("\n")[0][:_MESSAGE]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(error.__traceback__)
    return f"{said} at {place}" if place else said


def _place(traceback: TracebackType | None) -> str:
    """The innermost line outside of this package: what it raised was raised for that line."""
    place = ""
    while traceback is not None:
        frame = traceback.tb_frame
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != "tenuto":
            place = f"{frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
