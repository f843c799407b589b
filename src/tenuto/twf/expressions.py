"""Expressions: precedence climbing over the operators, loosest first `or and not == + * -`.

Two limits keep every later walk over the tree shallow: how deep the parser goes (`enter`) and how high a finished
expression may be (`height`), which also catches long chains such as `a + a + a …` that need no brackets.
"""

from __future__ import annotations

from typing import Final

from .ast import (
    Argument,
    Binary,
    Bool,
    CallExpr,
    Construct,
    Duration,
    Expr,
    Field,
    FieldAccess,
    Group,
    Ident,
    Index,
    ListExpr,
    MapEntry,
    MapExpr,
    Name,
    Null,
    Number,
    String,
    Unary,
)
from .cursor import DEPTH_LIMIT, Cursor
from .tokens import DURATION, DURATION_UNITS, KEYWORDS, NAME, NUMBER, STRING

__all__ = ["BINARY", "ExpressionParser", "duration_seconds", "number_value"]

BINARY: Final = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_NOT: Final = 3
_COMPARISON: Final = 4
_UNARY: Final = 7
_VALUE_HINTS: Final = {
    "await": "bind the result: await … -> name",
    "activity": "a call is a statement of its own: activity … -> name",
    "workflow": "a call is a statement of its own: workflow … -> name",
    "continue_as_new": "continue_as_new(…) is a statement of its own",
    "timer": "await timer(5m)",
    "all": "await all:",
    "one": "await one:",
}


class ExpressionParser(Cursor):
    """Reads expressions, arguments, constructors."""

    def expression(self, floor: int = 1) -> Expr:
        """An expression made of operators that bind at least as tightly as `floor`."""
        kinds = self.kinds
        kind = kinds[self.i]
        if kind == "-":
            left = self._negative()
        elif kind == "not" and floor <= _NOT:
            left = self._negated()
        else:
            left = self._postfix()
        level = BINARY.get(kinds[self.i], 0)
        if level < floor or not level:
            return left
        return self._binary(left, floor)

    def _binary(self, left: Expr, floor: int) -> Expr:
        kinds = self.kinds
        height = self.height
        compared = False
        while True:
            op = kinds[self.i]
            level = BINARY.get(op, 0)
            if level < floor or not level:
                self.height = height
                return left
            if level == _COMPARISON:
                if compared:
                    self.report_at(self.i, "TWF146", "comparisons cannot be chained", "join them with 'and'")
                compared = True
            elif level < _COMPARISON:
                compared = False
            self.i += 1
            right = self.expression(level + 1)
            height = max(height, self.height) + 1
            if height > DEPTH_LIMIT:
                self._too_high()
            left = Binary(left.start, right.end, op, left, right)

    def _too_high(self) -> None:
        self.i -= 1
        self.fail("TWF160", f"an expression of more than {DEPTH_LIMIT} levels", "assign a part of it to a variable")

    def _negative(self) -> Expr:
        self.enter()
        start = self.starts[self.i]
        self.i += 1
        operand = self.expression(_UNARY)
        self.depth -= 1
        self.height += 1
        return Unary(start, operand.end, "-", operand)

    def _negated(self) -> Expr:
        self.enter()
        start = self.starts[self.i]
        self.i += 1
        operand = self.expression(_NOT)
        self.depth -= 1
        self.height += 1
        return Unary(start, operand.end, "not", operand)

    # --- what stands behind a value

    def _postfix(self) -> Expr:
        value = self._primary()
        kinds = self.kinds
        while True:
            kind = kinds[self.i]
            if kind == ".":
                self.i += 1
                field = self.key()
                value = FieldAccess(value.start, field.end, value, field)
            elif kind == "(":
                if type(value) is not Name:
                    self.extend("methodcall", value.start, value.end)
                args = self.args()
                value = CallExpr(value.start, self.last_end, value, args)
            elif kind == "[":
                below = self.height
                self.enter()
                self.i += 1
                index = self.expression()
                self.expect("]")
                self.depth -= 1
                self.height = max(below, self.height)
                value = Index(value.start, self.last_end, value, index)
            else:
                return value
            self.height += 1
            if self.height > DEPTH_LIMIT:
                self._too_high()

    def args(self) -> tuple[Argument, ...]:
        """`( … )` of a call: positional arguments first, then named ones."""
        below = self.height
        self.enter()
        self.expect("(")
        found: list[Argument] = []
        named: set[str] = set()
        kinds = self.kinds
        while kinds[self.i] != ")":
            found.append(self._argument(named))
            below = max(below, self.height)
            if not self.comma(")"):
                break
        self.expect(")")
        self.depth -= 1
        self.height = below
        return tuple(found)

    def _argument(self, named: set[str]) -> Argument:
        i = self.i
        if self.kinds[i + 1] == ":" and (self.kinds[i] == NAME or self.kinds[i] in KEYWORDS):
            key = self.key()
            self.extend("kwarg", key.start, key.end)
            if key.name in named:
                self.report_at(i, "TWF151", f"argument '{key.name}' is given twice")
            named.add(key.name)
            self.i += 1
            value = self.expression()
            return Argument(key.start, value.end, key, value)
        value = self.expression()
        if named:
            message = "a positional argument cannot follow a named one"
            self.report("TWF151", value.start, value.end, message, "name it, or move it to the front")
        return Argument(value.start, value.end, None, value)

    def comma(self, closer: str) -> bool:
        """After an item: is there another one?"""
        if not self.take(","):
            return False
        if self.kinds[self.i] == closer:
            self.extend("trailingcomma", self.starts[self.i - 1], self.ends[self.i - 1])
            return False
        return True

    # --- values

    def _primary(self) -> Expr:
        i = self.i
        kind = self.kinds[i]
        start, end = self.starts[i], self.ends[i]
        self.height = 0
        if kind == NAME:
            self.i += 1
            if self.kinds[self.i] == "{":
                return self._construct(Ident(start, end, self.text[start:end]))
            return Name(start, end, self.text[start:end])
        if kind == STRING:
            self.i += 1
            return String(start, end, self._string_value(start, end))
        if kind == NUMBER:
            self.i += 1
            text = self.text[start:end]
            return Number(start, end, number_value(text), text)
        if kind == "(":
            return self._group()
        if kind == "true" or kind == "false":
            self.i += 1
            return Bool(start, end, kind == "true")
        if kind == "null":
            self.i += 1
            return Null(start, end)
        if kind == DURATION:
            self.extend("duration", start, end)
            return self.duration()
        if kind == "[":
            return self._list()
        if kind == "{":
            return self._map()
        if kind in KEYWORDS:
            self.fail("TWF122", f"'{kind}' is a keyword and cannot be a value", _VALUE_HINTS.get(kind))
        self.fail_expected("a value")

    def _string_value(self, start: int, end: int) -> str:
        text = self.text[start + 1 : end]
        return text.removesuffix('"')

    def duration(self) -> Duration:
        start, end = self.starts[self.i], self.ends[self.i]
        self.i += 1
        text = self.text[start:end]
        return Duration(start, end, duration_seconds(text), text)

    def _group(self) -> Expr:
        start = self.starts[self.i]
        self.enter()
        self.i += 1
        value = self.expression()
        self.expect(")")
        self.depth -= 1
        self.height += 1
        self.extend("group", start, self.last_end)
        return Group(start, self.last_end, value)

    def _list(self) -> Expr:
        start = self.starts[self.i]
        self.enter()
        self.i += 1
        items: list[Expr] = []
        height = 0
        while self.kinds[self.i] != "]":
            items.append(self.expression())
            height = max(height, self.height)
            if not self.comma("]"):
                break
        self.expect("]")
        self.depth -= 1
        self.height = height + 1
        self.extend("list", start, self.last_end)
        return ListExpr(start, self.last_end, tuple(items))

    def _map(self) -> Expr:
        start = self.starts[self.i]
        self.enter()
        self.i += 1
        entries: list[MapEntry] = []
        height = 0
        while self.kinds[self.i] != "}":
            key = self._map_key()
            self.expect(":")
            value = self.expression()
            height = max(height, self.height)
            entries.append(MapEntry(key.start, value.end, key, value))
            if not self.comma("}"):
                break
        self.expect("}")
        self.depth -= 1
        self.height = height + 1
        self.extend("map", start, self.last_end)
        return MapExpr(start, self.last_end, tuple(entries))

    def _map_key(self) -> Ident:
        if self.kinds[self.i] == STRING:
            start, end = self.starts[self.i], self.ends[self.i]
            self.i += 1
            return Ident(start, end, self._string_value(start, end))
        return self.key()

    def _construct(self, name: Ident) -> Expr:
        self.enter()
        self.i += 1
        fields: list[Field] = []
        height = 0
        while self.kinds[self.i] != "}":
            fields.append(self._field(name, fields))
            height = max(height, self.height)
            if not self.comma("}"):
                break
        self.expect("}")
        self.depth -= 1
        self.height = height + 1
        return Construct(name.start, self.last_end, name, tuple(fields))

    def _field(self, name: Ident, before: list[Field]) -> Field:
        i = self.i
        if self.kinds[i + 1] == ":" and (self.kinds[i] == NAME or self.kinds[i] in KEYWORDS):
            key = self.key()
            self.i += 1
            value = self.expression()
            return Field(key.start, value.end, key, value, False)
        value = self.expression()
        shorthand = _shorthand_key(value)
        if shorthand is not None:
            self.extend("shorthand", value.start, value.end)
            return Field(value.start, value.end, shorthand, value, True)
        if all(field.key is not None for field in before):
            message = f"a value in {name.name}{{…}} needs a field name"
            self.report("TWF147", value.start, value.end, message, f"{name.name}{{field: value}}")
        return Field(value.start, value.end, None, value, False)

    # --- several values

    def values(self) -> Expr | None:
        """`a, b` after `return` or `close`; a list when there are several."""
        if self.kinds[self.i] == "newline":
            return None
        first = self.expression()
        if self.kinds[self.i] != ",":
            return first
        items = [first]
        while self.take(","):
            items.append(self.expression())
        self.extend("tuple", first.start, items[-1].end)
        return ListExpr(first.start, items[-1].end, tuple(items))


def _shorthand_key(value: Expr) -> Ident | None:
    """The field that `x` or `a.b` stands for in a constructor."""
    if isinstance(value, Name):
        return Ident(value.start, value.end, value.name)
    if isinstance(value, FieldAccess):
        root: Expr = value
        while isinstance(root, FieldAccess):
            root = root.value
        return value.field if isinstance(root, Name) else None
    return None


def number_value(text: str) -> int | float:
    """The value of a number's text; malformed ones, reported by the lexer, count as zero."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return 0


def duration_seconds(text: str) -> int | float:
    """The seconds of a duration's text; an unknown unit, reported by the lexer, counts as seconds."""
    unit = text.lstrip("0123456789.")
    number = number_value(text[: len(text) - len(unit)])
    if unit == "ms":
        return number / 1000
    return number * DURATION_UNITS.get(unit, 1)
