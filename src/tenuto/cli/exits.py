"""What exit codes mean: the one place, for the help, the reference and every command."""

from __future__ import annotations

from typing import Final

from tenuto.errors import (
    CodeFault,
    ConfigError,
    EngineFault,
    EnvironmentFault,
    InvalidNameError,
    RunCancelledError,
    RunFailedError,
    RunTerminatedError,
    UpdateFailedError,
    UpdateRejectedError,
)

__all__ = ["EXIT_CODES", "exit_code_of"]

EXIT_CODES: Final[dict[int, str]] = {
    0: "it is done, and nothing was found",
    1: "it is done, and something was found: a finding, a run that would diverge, a run that did not succeed",
    2: "the command line is wrong: an option, a value that is not JSON, a URL, a setting",
    3: "the store refused: no such run, or not in its status (TN2xx)",
    4: "the surroundings: store unreachable, locked, too new, unreadable (TN3xx)",
    5: "user code: it cannot be loaded, or did what it may not (TN1xx, DIRxxx)",
    9: "a bug of Tenuto (TN9xx)",
    130: "interrupted",
}

_NO_SUCCESS: Final = (
    RunFailedError,
    RunCancelledError,
    RunTerminatedError,
    UpdateFailedError,
    UpdateRejectedError,
    TimeoutError,
)


def exit_code_of(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    match error:
        case _ if isinstance(error, _NO_SUCCESS):
            return 1
        case ConfigError() | InvalidNameError() | ValueError():
            return 2
        case EnvironmentFault():
            return 4
        case CodeFault():
            return 5
        case EngineFault():
            return 9
        case _:
            return 3
