"""Targets, one family for calls, awaits and the cases of `await one`."""

from __future__ import annotations

from typing import Final

from .ast import (
    ActivityTarget,
    AllTarget,
    Await,
    AwaitAll,
    AwaitCase,
    AwaitOne,
    Error,
    Expr,
    HandlerKind,
    HandleTarget,
    Ident,
    MessageTarget,
    Number,
    Options,
    Statement,
    String,
    Target,
    TimerTarget,
    WorkflowMode,
    WorkflowTarget,
)
from .blocks import BlockParser
from .cursor import Unreadable
from .dialects import DIALECT_HINTS
from .tokens import DEDENT, DURATION, INDENT, NAME, NEWLINE, NUMBER, STRING

__all__ = ["HEADS", "TargetParser"]

HEADS: Final = frozenset(("activity", "workflow", "spawn", "detach", "nexus"))
_TARGETS: Final = HEADS | {"timer", "signal", "update", "query", NAME}
_MESSAGES: Final[dict[str, HandlerKind]] = {"signal": "signal", "query": "query", "update": "update"}
_A_TARGET: Final = "timer, signal, update, activity, workflow, or a handle"
_MISPLACED: Final = "options do not belong to this"
_UNDER_CALLS: Final = "options configure activity and workflow calls"


class TargetParser(BlockParser):
    """Reads heads, targets, and everything that begins with `await`."""

    # --- activity A(…), spawn nexus "n" workflow W(…)

    def head(self) -> ActivityTarget | WorkflowTarget:
        start = self.starts[self.i]
        mode = self._mode()
        namespace = self._namespace() if self.take("nexus") else None
        modified = self.starts[self.i] != start
        if self.kinds[self.i] == "activity":
            if modified:
                word = self.text[start:].split(None, 1)[0]
                self.report_at(self.i, "TWF137", f"'{word}' applies to workflows only", "activity … alone")
            self.i += 1
            name = self.name("the name of an activity", tolerant=False)
            args = self.args()
            return ActivityTarget(start, self.last_end, name, args)
        self.expect("workflow")
        name = self.name("the name of a workflow", tolerant=False)
        args = self.args()
        return WorkflowTarget(start, self.last_end, name, args, mode, namespace)

    def _mode(self) -> WorkflowMode:
        mode: WorkflowMode = "child"
        while self.kinds[self.i] in ("spawn", "detach"):
            if mode != "child":
                self.report_at(self.i, "TWF138", "spawn and detach exclude each other", "keep one of them")
            else:
                mode = "spawn" if self.kinds[self.i] == "spawn" else "detach"
            self.i += 1
        return mode

    def _namespace(self) -> String | None:
        i = self.i
        start, end = self.starts[i], self.ends[i]
        if self.kinds[i] == STRING:
            self.i += 1
            return String(start, end, self.text[start + 1 : end].removesuffix('"'))
        word = self.word(i)
        hint = f'nexus "{word}" workflow …' if self.kinds[i] == NAME else 'nexus "name" workflow …'
        self.report_at(i, "TWF139", "a namespace is a string", hint)
        if self.kinds[i] in (NAME, NUMBER, DURATION):
            self.i += 1
            return String(start, end, word)
        return None

    def bind(self, target: Target) -> tuple[Ident, ...]:
        """`-> names`, which must be next."""
        arrow = self.i
        self.i += 1
        if isinstance(target, WorkflowTarget) and target.mode == "detach":
            self.report_at(arrow, "TWF140", "detach has no result to bind", "use spawn to get a handle")
        if isinstance(target, MessageTarget) and self.kinds[self.i] == NAME:
            self.extend("barebind", self.starts[self.i], self.ends[self.i])
        return self.names()

    # --- any target

    def target(self) -> Target:
        i = self.i
        kind = self.kinds[i]
        if kind in HEADS:
            return self.head()
        if kind == "timer":
            return self._timer_target()
        message = _MESSAGES.get(kind)
        if message is not None:
            self.i += 1
            name = self.name(f"the name of a{'n' if kind == 'update' else ''} {kind}", tolerant=False)
            return MessageTarget(self.starts[i], name.end, message, name)
        if kind == NAME:
            name = self.ident()
            self.extend("handle", name.start, name.end)
            return HandleTarget(name.start, name.end, name)
        self.fail_expected(_A_TARGET)

    def _timer_target(self) -> TimerTarget:
        start = self.starts[self.i]
        self.i += 1
        self.enter()
        self.expect("(", "timer(5m)")
        duration = self._timer_duration()
        self.expect(")")
        self.depth -= 1
        return TimerTarget(start, self.last_end, duration)

    def _timer_duration(self) -> Expr | None:
        i = self.i
        kind, following = self.kinds[i], self.kinds[i + 1]
        if kind == ")":
            self.report_at(i, "TWF111", "timer needs a duration", "5s, 5m, 5h or 5d")
            return None
        if kind == DURATION and following == ")":
            return self.duration()
        value = self.expression()
        if kind == NUMBER and isinstance(value, Number):
            self.report_at(
                i, "TWF111", "a duration needs a unit", f"{value.text}s, {value.text}m, {value.text}h, {value.text}d"
            )
            if self.kinds[self.i] == NAME:  # `5 m`: the blank before the unit is the whole mistake
                self.i += 1
        elif not (kind == NAME and following == ")"):
            self.extend("duration", value.start, value.end)
        return value

    # --- await

    def await_statement(self, first: int, start: int, result: tuple[Ident, ...]) -> Statement:
        """From `await` on; `result` is what a wrong `x = await …` binds."""
        self.i += 1
        kind = self.kinds[self.i]
        if kind == "all":
            return self._await_all(first)
        if kind == "one":
            return self._await_one(first)
        if kind == NAME and self.kinds[self.i + 1] == "(" and self.word(self.i) in DIALECT_HINTS:
            word = self.word(self.i)
            self.i = first
            self.fail("TWF150", f"'await {word}(…)' is not TWF", DIALECT_HINTS[word])
        target = self.target()
        if self.kinds[self.i] == "->" and not isinstance(target, TimerTarget):
            result = self.bind(target)
        end = self.last_end
        self.same_line_options()
        self.expect_line_end()
        allowed = isinstance(target, (ActivityTarget, WorkflowTarget))
        options = self.options_below(allowed=allowed, tag="awaitoptions")
        return Await(start, options.end if options else end, target, result, options)

    def _await_all(self, first: int) -> Statement:
        self.i += 1
        complete = self.header_end()
        body = self.block(first, complete=complete)
        return AwaitAll(self.starts[first], self.block_end(first), body)

    def _await_one(self, first: int) -> Statement:
        self.i += 1
        complete = self.header_end()
        cases: tuple[AwaitCase | Error, ...] = ()
        known = len(self.diagnostics)
        if self.kinds[self.i] == INDENT:
            cases = self.indented(self.await_case)
        else:
            self.has_block(first, complete=complete)
        if not cases and complete and len(self.diagnostics) == known:
            self.muted = first in self.muted_lines
            self.report_at(first, "TWF141", "await one needs a case", "timer(5m):, signal S:, activity A() -> r:")
        return AwaitOne(self.starts[first], self.block_end(first), cases)

    # --- the cases of await one

    def await_case(self) -> AwaitCase | Error | None:
        first, depth = self.i, self.depth
        self.muted = first in self.muted_lines
        try:
            kind = self.kinds[first]
            if kind == "await":
                return self._await_all_case(first)
            if kind == "options":
                self.drop_options("TWF133", "options do not belong here", "own line, first in the body of a case")
                return None
            if kind not in _TARGETS:
                self._no_case()
            return self._case(first)
        except Unreadable:
            return self.recover(first, depth)

    def _no_case(self) -> None:
        hint = "a case is timer(…):, signal S:, update U:, activity A() -> r:, workflow W() -> r: or await all:"
        self.fail("TWF142", "this is not a case of await one", hint)

    def _await_all_case(self, first: int) -> AwaitCase:
        following = self.kinds[first + 1]
        if following != "all":
            hint = "nest await all:" if following == "one" else "drop 'await'"
            self.fail("TWF142", "only await all may stand as a case", hint)
        self.i += 2
        complete = self.header_end()
        body = self.block(first, complete=complete)
        start, end = self.starts[first], self.block_end(first)
        return AwaitCase(start, end, AllTarget(start, end, body), (), None, None)

    def _case(self, first: int) -> AwaitCase:
        following = self.kinds[first + 1]
        if self.kinds[first] == NAME and following not in (":", "->", NEWLINE):
            self._no_case()
        target = self.target()
        result: tuple[Ident, ...] = ()
        if self.kinds[self.i] == "->" and not isinstance(target, TimerTarget):
            result = self.bind(target)
        self.same_line_options()
        self.header_end()
        options: Options | None = None
        body: tuple[Statement, ...] | None = None
        if self.kinds[self.i] == INDENT:
            options, body = self._case_body(target)
        return AwaitCase(self.starts[first], self.block_end(first), target, result, options, body)

    def _case_body(self, target: Target) -> tuple[Options | None, tuple[Statement, ...]]:
        """The block of a case; its first line may hold options, which then belong to the target."""
        if self.kinds[self.i + 1] != "options":
            return None, self.indented(self.statement)
        options: Options | None = None
        self.enter()
        self.i += 1
        if isinstance(target, (ActivityTarget, WorkflowTarget)) and self.kinds[self.i + 1] == "(":
            options = self.options_line()
            if options is not None:
                self.extend("awaitoptions", options.start, options.start + len("options"))
        else:
            self.drop_options("TWF133", _MISPLACED, _UNDER_CALLS)
        while self.kinds[self.i] == "options":
            self.drop_options("TWF134", "only one options line per case", "merge the two")
        body: list[Statement] = []
        if self.kinds[self.i] == DEDENT:
            self.i += 1
        else:
            self.lines(body, self.statement)
        self.depth -= 1
        return options, tuple(body)
