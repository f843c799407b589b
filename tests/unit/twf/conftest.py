"""What several tests of the language share: the cases, trees without places, and programs made by chance."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tenuto.twf.jsonform import file_json
from tenuto.twf.parser import parse
from tenuto.twf.source import Source

CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="session")
def cases() -> dict[str, str]:
    """The text of every case by name."""
    return {path.name: path.read_bytes().decode("utf-8") for path in sorted(CASES.glob("*.twf"))}


@pytest.fixture(scope="session")
def expectations() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((CASES / "cases.json").read_text(encoding="utf-8"))
    return found


def without_spans(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_spans(item) for key, item in value.items() if key != "span"}
    if isinstance(value, list):
        return [without_spans(item) for item in value]
    return value


@pytest.fixture(scope="session")
def tree() -> Callable[[str], Any]:
    """The definitions of a text as plain data, places left out."""

    def read(text: str) -> Any:
        return without_spans(file_json(parse(Source("a.twf", text)).file)["definitions"])

    return read


@pytest.fixture(scope="session")
def make_program() -> Callable[[Random], str]:
    """Writes a correct program by chance, in a chance layout: blanks, comments, breaks inside brackets."""

    def make(random: Random) -> str:
        return Writer(random).program()

    return make


class Writer:
    """Draws from every production of the grammar; the words between are laid out by chance, too."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.unit = random.choice(["    ", "  ", "\t", " "])
        self.lines: list[str] = []

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def gap(self) -> str:
        return self.pick("", " ", "  ") if self.chance(30) else ""

    def space(self) -> str:
        return self.pick(" ", "  ") if self.chance(20) else " "

    def name(self) -> str:
        return self.pick("a", "b", "item", "total", "x_1", "failed", "completed")

    # --- lines

    def line(self, level: int, text: str) -> None:
        if self.chance(8):
            self.lines.append(self.pick("", "   ", f"{self.unit * level}# note {len(self.lines)}"))
        comment = f"{self.pick(' ', '  ')}# behind {len(self.lines)}" if self.chance(6) else ""
        self.lines.append(f"{self.unit * level}{text}{comment}")

    def block(self, level: int, depth: int, *, query: bool = False) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(level, depth, query=query)

    def program(self) -> str:
        for number in range(self.random.randrange(1, 4)):
            if self.chance(70):
                self.workflow(number)
            else:
                self.activity(number)
            self.lines += [""] * self.random.randrange(0, 3)
        return "\n".join(self.lines) + self.pick("\n", "")

    def workflow(self, number: int) -> None:
        self.line(0, f"workflow W{number}{self.params()}{self.returns()}:")
        if self.chance(20):
            self.line(1, self.options())
        for kind in ("signal", "query", "update"):
            if self.chance(40):
                result = "" if kind == "signal" else f" -> ({self.type()})"
                self.line(1, f"{kind} M{number}{self.params()}{result}:")
                self.block(2, 1, query=kind == "query")
        self.block(1, 3)

    def activity(self, number: int) -> None:
        self.line(0, f"activity A{number}{self.params()}{self.returns()}:")
        self.block(1, 2, query=True)

    # --- statements

    def statement(self, level: int, depth: int, *, query: bool) -> None:
        plain = [self.assign, self.ret, self.call_expr]
        durable = [self.call, self.wait]
        nested = [self.branch, self.loop, self.switch] + ([] if query else [self.all, self.one])
        pool = plain + ([] if query else durable) + (nested if depth else [])
        self.random.choice(pool)(level, depth, query)

    def assign(self, level: int, depth: int, query: bool) -> None:
        place = self.name() + self.pick("", "", ".f", "[0]", ".f[1].options")
        op = self.pick("=", "=", "+=", "-=", "*=", "/=")
        self.line(
            level,
            f"{place}{self.gap()}{op}{self.gap()}{self.expr(3)}" if self.chance(50) else f"{place} {op} {self.expr(3)}",
        )

    def ret(self, level: int, depth: int, query: bool) -> None:
        word = self.pick("return", "close", "close failed", "close completed") if not query else "return"
        value = self.pick("", f" {self.atom()}", f" ({self.expr(2)})", f" {self.atom()}, {self.atom()}")
        if value.startswith(" ["):  # after a soft word this would be an index
            word = "return"
        self.line(level, word + value)

    def call_expr(self, level: int, depth: int, query: bool) -> None:
        self.line(level, f"{self.pick('f', 'db.close', 'a.b.c')}{self.args()}")

    def head(self) -> str:
        mode = self.pick("", "", "spawn ", "detach ") + self.pick("", "", 'nexus "n" ')
        if not mode and self.chance(60):
            return f"activity{self.space()}A{self.random.randrange(3)}{self.args()}"
        return f"{mode}workflow{self.space()}W{self.random.randrange(3)}{self.args()}"

    def bound(self, head: str) -> str:
        if "detach" in head or self.chance(40):
            return ""
        return self.pick(" -> r", " ->r", " -> (r, s)", " -> ( r,s )")

    def call(self, level: int, depth: int, query: bool) -> None:
        head = self.head()
        if self.chance(15):
            self.line(level, f"r = {head}")
            return
        self.line(level, head + self.bound(head))
        if self.chance(25):
            self.line(level + 1, self.options())

    def target(self) -> str:
        head = self.head()
        return self.pick(
            "timer(5m)", "timer (500ms)", "timer( a * 2 )", "signal M0", "signal M0 -> (a)", "h", "h -> r", head
        )

    def wait(self, level: int, depth: int, query: bool) -> None:
        self.line(level, f"await{self.space()}{self.target()}")

    def branch(self, level: int, depth: int, query: bool) -> None:
        condition = self.comparison() if self.chance(40) else self.expr(2)
        self.line(level, f"if{self.gap()}({self.gap()}{condition}{self.gap()}){self.gap()}:")
        self.block(level + 1, depth - 1, query=query)
        if self.chance(40):
            self.line(level, "else:")
            self.block(level + 1, depth - 1, query=query)

    def loop(self, level: int, depth: int, query: bool) -> None:
        header = self.pick("", f" ({self.expr(1)})", f" ({self.name()} in {self.expr(1)})", f"(x  in {self.atom()})")
        self.line(level, f"for{header}:")
        self.block(level + 1, depth - 1, query=query)

    def switch(self, level: int, depth: int, query: bool) -> None:
        self.line(level, f"switch ({self.expr(1)}):")
        for _ in range(self.random.randrange(1, 3)):
            self.line(level + 1, f"case {self.expr(1)}:")
            self.block(level + 2, depth - 1, query=query)
        if self.chance(30):
            self.line(level + 1, "else :")
            self.block(level + 2, depth - 1, query=query)

    def all(self, level: int, depth: int, query: bool) -> None:
        self.line(level, "await all:")
        if self.chance(10):
            self.lines.append(f"{self.unit * (level + 2)}# nothing here")
        else:
            self.block(level + 1, depth - 1)

    def one(self, level: int, depth: int, query: bool) -> None:
        self.line(level, "await  one:")
        for _ in range(self.random.randrange(1, 4)):
            self.line(level + 1, f"{self.target()}{self.gap()}:")
            if self.chance(60):
                self.block(level + 2, depth - 1)

    # --- smaller parts

    def options(self) -> str:
        return "options" + self.listing("(", ")", self.option)

    def option(self) -> str:
        key = self.pick("taskQueue", "priority", "options")
        return f"{key}: {self.atom()}"

    def entry(self) -> str:
        key = self.pick("k", "if", '"a b"')
        return f"{key}: {self.atom()}"

    def params(self) -> str:
        return self.listing("(", ")", lambda: f"{self.name()}{self.gap()}:{self.gap()}{self.type()}")

    def returns(self) -> str:
        return self.pick("", " -> (int)", "->(int, Map[string])", " -> ( T )")

    def type(self) -> str:
        return self.pick("int", "[]Item", "map[string]int", "T{a: int, b: []x}", "pkg.T", "Opt[List[int]]")

    def args(self) -> str:
        return self.gap() + self.listing("(", ")", lambda: self.expr(2))

    def listing(self, opener: str, closer: str, item: Callable[[], str]) -> str:
        """A bracket list, sometimes over several lines and with comments."""
        items = [item() for _ in range(self.random.randrange(0, 4))]
        if not items:
            return opener + self.gap() + closer
        if not self.chance(25):
            return opener + self.gap() + f"{self.gap()},{self.gap()}".join(items) + self.gap() + closer
        parts = [opener]
        for number, one in enumerate(items):
            last = number == len(items) - 1
            if self.chance(20):
                parts.append(f"\n  # above {len(parts)}\n")
            comma = self.pick("", ",") if last else ","
            behind = f" # at {len(parts)}\n" if self.chance(20) else self.pick("", "\n", "\n      ")
            parts.append(one + comma + behind)
        return "".join(parts) + closer

    def atom(self) -> str:
        return self.pick("1", "2.5", '"text # ("', "true", "null", "30s", "x", "item", "a.b", "f(1)", "R{}", "[]")

    def comparison(self) -> str:
        return f"{self.atom()}{self.gap()}{self.pick('==', '<', '>=', '!=')}{self.gap()}{self.atom()}"

    def expr(self, depth: int) -> str:
        if not depth:
            return self.atom()
        return self.random.choice(
            [
                self.atom,
                lambda: (
                    f"{self.expr(depth - 1)}{self.space()}{self.pick('+', '-', '*', '/', '%')} {self.expr(depth - 1)}"
                ),
                lambda: f"({self.comparison()})",
                lambda: f"{self.atom()} {self.pick('and', 'or')} not {self.atom()}",
                lambda: f"-{self.gap()}{self.atom()}",
                lambda: f"({self.gap()}{self.expr(depth - 1)})",
                lambda: f"f{self.args()}",
                lambda: f"x{self.gap()}[{self.expr(depth - 1)}].close",
                lambda: f"R{self.listing('{', '}', lambda: self.pick('a', 'a.b', f'in: {self.atom()}'))}",
                lambda: self.listing("[", "]", lambda: self.expr(depth - 1)),
                lambda: self.listing("{", "}", self.entry),
            ]
        )()
