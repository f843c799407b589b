"""What goes wrong at a statement, before the statement has said where it is."""

from __future__ import annotations

from tenuto.errors import TwfError

__all__ = ["Fault", "Stopped"]


class Fault(Exception):
    """Something is wrong at the statement being executed, which knows its place and makes a `TwfError` of this."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def at(self, file: str, line: int) -> TwfError:
        return TwfError(self.code, self.code, self.message, file=file, line=line)


class Stopped(Exception):
    """The run cannot go on through no fault of its own (TWF6xx): it is parked, and resumes after a deploy."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def at(self, file: str, line: int) -> TwfError:
        return TwfError(self.code, self.code, f"{self.message} ({file}, line {line})", file=file, line=line)
