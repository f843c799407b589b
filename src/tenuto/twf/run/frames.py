"""Where an expression looks things up: variables, and who answers built-in and host functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

if TYPE_CHECKING:
    from tenuto.errors import TwfError

    from .lines import Line

__all__ = ["CALL", "MEASURE_AFTER", "Budget", "Frame", "Host", "Variables"]

Variables = dict[str, Any]
CALL: Final = 10  # units of work that a statement, a pass of a loop or a call is
MEASURE_AFTER: Final = 256 * 1024  # items and characters assigned


class Budget:
    """How much more work may be done before something suspends, and how much variables have grown."""

    __slots__ = ("grown", "left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit
        self.grown = 0  # items and characters assigned since variables were last measured


class Host(Protocol):
    """Whoever executes: a run, a query, an attempt of an activity."""

    budget: Budget
    changed: bool  # a variable that queries read may have another value than was published

    def builtin(self, name: str) -> Callable[..., Any]:
        """A built-in function that belongs to this sort of code."""
        ...

    def function(self, name: str) -> Callable[..., Any]:
        """A host function that may be called here; `Stopped` if there is none."""
        ...

    def out_of_budget(self) -> None:
        """Much work was done without suspending, or variables have grown: `Stopped` if it is too much."""
        ...

    def stop(self, error: TwfError) -> NoReturn:
        """This code cannot go on here, through no fault of its own."""
        ...


class Frame:
    """The variables in sight, and the scope: every scope of the kernel has a frame of its own."""

    __slots__ = ("budget", "host", "line", "locals", "loops", "shared")

    def __init__(self, host: Host, shared: Variables, inner: tuple[Variables, ...], line: Line | None = None) -> None:
        self.host = host
        self.shared = shared  # the definition's own
        self.locals = inner  # of a handler, of passes of a fan-out; innermost last
        self.line = line  # the body or handler that this code belongs to
        self.loops = 0  # loops opened in this scope
        self.budget = host.budget

    def below(self, inner: Variables | None = None) -> Frame:
        """The frame of a scope below this one."""
        return Frame(self.host, self.shared, self.locals if inner is None else (*self.locals, inner), self.line)
