"""The grammar, production by production: what it accepts (with its extensions), what it rejects (with the code)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenuto.twf.parser import parse
from tenuto.twf.program import load
from tenuto.twf.source import Source

AROUND = """

workflow V(x: int) -> (int):
    close x

activity A(x: int) -> (int):
    return x
"""
HANDLERS = """\
    signal S(a: int):
        y = a
    update U(a: int) -> (int):
        return a
"""


def syntax(text: str) -> tuple[list[str], list[str]]:
    """Codes of the syntax errors, and the extensions used."""
    parsed = parse(Source("a.twf", text))
    codes = [found.code for found in sorted(parsed.diagnostics, key=lambda found: found.start)]
    return codes, sorted({extension.tag for extension in parsed.file.extensions})


def in_body(statement: str) -> str:
    lines = "".join(f"    {line}\n" for line in statement.split("\n"))
    return f"workflow W(a: int, xs: T):\n{HANDLERS}{lines}    close\n{AROUND}"


# --- files and definitions

DEFINITIONS_ACCEPTED = {
    "file: empty": ("", []),
    "file: definitions in any order": ("activity A():\n    f()\nworkflow W():\n    close\n", ["exprstmt"]),
    "workflow: no parameters, no result": ("workflow W():\n    close\n", []),
    "workflow: parameters and result": ("workflow W(a: int, b: string) -> (int):\n    close 1\n", []),
    "workflow: several results": ("workflow W() -> (int, string):\n    close 1, 2\n", ["tuple"]),
    "workflow: options": ("workflow W():\n    options(timeout: d)\n    close\n", ["wfoptions"]),
    "workflow: handlers in order": (
        "workflow W():\n    signal S():\n        x = 1\n    query Q() -> (int):\n        return x\n"
        "    update U() -> (int):\n        return x\n    close\n",
        [],
    ),
    "workflow: handlers out of order": (
        "workflow W():\n    update U() -> (int):\n        return 1\n    signal S():\n        x = 1\n    close\n",
        ["order"],
    ),
    "activity: options first": ("activity A():\n    options(priority: 1)\n    return 1\n", []),
    "block: only comments": ("activity A():\n    # c\n", ["emptyblock"]),
    "params: trailing comma and several lines": (
        "workflow W(\n    a: int,\n):\n    close\n",
        ["multiline", "trailingcomma"],
    ),
    "type: of the base grammar": ("workflow W(a: T[U[V]], b: T{x: int, y}, c: T[U]{v}):\n    close\n", []),
    "type: everything up to the comma": ("workflow W(a: int b: int):\n    close\n", ["type"]),
    "type: anything balanced": ("workflow W(a: []T, b: map[k]v, c: p.T, d: (a, b)):\n    close\n", ["type"]),
}
DEFINITIONS_REJECTED = {
    "file: a statement": ("x = 1\n", ["TWF132"]),
    "file: a handler": ("query Q() -> (int):\n    return 1\n", ["TWF131"]),
    "file: an indented definition": ("  workflow W():\n    close\n", ["TWF103"]),
    "workflow: no name": ("workflow ():\n    close\n", ["TWF120"]),
    "workflow: a keyword as name": ("workflow in():\n    close\n", ["TWF122"]),
    "workflow: no parentheses": ("workflow W:\n    close\n", ["TWF120"]),
    "workflow: no colon": ("workflow W()\n    close\n", ["TWF121"]),
    "workflow: no block": ("workflow W():\n", ["TWF104"]),
    "workflow: a block on the same line": ("workflow W(): close\n", ["TWF120"]),
    "workflow: result without parentheses": ("workflow W() -> int:\n    close\n", ["TWF124"]),
    "workflow: empty result": ("workflow W() -> ():\n    close\n", ["TWF120"]),
    "workflow: options twice": (
        "workflow W():\n    options(timeout: d)\n    options(timeout: d)\n    close\n",
        ["TWF134"],
    ),
    "params: no type": ("workflow W(a):\n    close\n", ["TWF127"]),
    "params: two commas": ("workflow W(a: int,, b: int):\n    close\n", ["TWF120"]),
    "handler: signal with a result": (
        "workflow W():\n    signal S() -> (int):\n        x = 1\n    close\n",
        ["TWF120"],
    ),
    "handler: query without a result": ("workflow W():\n    query Q():\n        return 1\n    close\n", ["TWF129"]),
    "handler: after statements": ("workflow W():\n    x = 1\n    signal S():\n        x = 2\n    close\n", ["TWF130"]),
    "handler: in an activity": ("activity A():\n    signal S():\n        x = 2\n", ["TWF201"]),
}


@pytest.mark.parametrize("production", DEFINITIONS_ACCEPTED)
def test_a_definition_is_accepted(production: str) -> None:
    text, extensions = DEFINITIONS_ACCEPTED[production]
    assert syntax(text) == ([], extensions)


@pytest.mark.parametrize("production", DEFINITIONS_REJECTED)
def test_a_definition_is_rejected(production: str) -> None:
    text, codes = DEFINITIONS_REJECTED[production]
    assert syntax(text)[0] == codes


# --- statements

STATEMENTS_ACCEPTED = {
    "call: activity": ("activity A(1)", []),
    "call: activity with a result": ("activity A(1) -> r", []),
    "call: activity with results": ("activity A(1) -> (r, s)", []),
    "call: with options": ("activity A(1) -> r\n    options(priority: 1)", []),
    "call: workflow": ("workflow V(1) -> r", []),
    "call: spawn": ("spawn workflow V(1) -> h", []),
    "call: detach": ("detach workflow V(1)", []),
    "call: nexus": ('nexus "n" workflow V(1) -> r', []),
    "call: spawn nexus": ('spawn nexus "n" workflow V(1) -> r', []),
    "assign: a name": ("x = 1", []),
    "assign: with an operator": ("x = 1\nx += 1\nx -= 1\nx *= 2\nx /= 2", ["augassign"]),
    "assign: a field": ("xs.a.b = 1", ["fieldassign"]),
    "assign: an item": ("xs[0] = 1", ["indexassign"]),
    "assign: a call": ("x = spawn workflow V(1)", ["assigncall"]),
    "await: timer": ("await timer(5m)", []),
    "await: timer by name": ("await timer(a)", []),
    "await: timer by expression": ("await timer(a * 2)", ["duration"]),
    "await: milliseconds": ("await timer(10ms)", ["ms"]),
    "await: signal": ("await signal S", []),
    "await: signal with names": ("await signal S -> (p)", []),
    "await: signal with a bare name": ("await signal S -> p", ["barebind"]),
    "await: update": ("await update U -> (p)", []),
    "await: activity": ("await activity A(1) -> r", []),
    "await: workflow": ("await workflow V(1) -> r", []),
    "await: handle": ("spawn workflow V(1) -> h\nawait h -> r", ["handle"]),
    "await: with options": ("await activity A(1) -> r\n    options(priority: 1)", ["awaitoptions"]),
    "await all": ("await all:\n    activity A(1)\n    activity A(2)", []),
    "await one: every kind of case": (
        "await one:\n    signal S:\n    update U -> (p):\n        x = p\n    timer(5m):\n        x = 1\n"
        '    activity A(1) -> r:\n    nexus "n" workflow V(1) -> s:\n        x = s\n'
        "    await all:\n        activity A(3)",
        [],
    ),
    "if": ("if (a):\n    x = 1", []),
    "if else": ("if (a):\n    x = 1\nelse:\n    x = 2", []),
    "for: ever": ("for:\n    break", []),
    "for: while": ("for (a < 1):\n    a = a + 1", []),
    "for: each": ("for (x in xs):\n    continue", []),
    "switch": ('switch (a):\n    case 1:\n        x = 1\n    case "b":\n        x = 2\n    else:\n        x = 3', []),
    "close": ("close", []),
    "close: a value": ("close a", []),
    "close: completed": ("close completed", []),
    "close: failed with a value": ('close failed "x"', []),
    "close: failed and a group": ("close failed (a)", ["group"]),
    "return": ("return", []),
    "return: several": ("return a, 1", ["tuple"]),
    "continue_as_new": ("continue_as_new(1, 2)", []),
    "continue_as_new: nothing": ("continue_as_new()", ["emptycan"]),
    "heartbeat": ("heartbeat()\nheartbeat(1)", []),
    "call expression": ("f(1)", ["exprstmt"]),
    "method call": ("xs.append(1)", ["exprstmt", "methodcall"]),
}
STATEMENTS_REJECTED = {
    "call: no arguments": ("activity A", ["TWF120"]),
    "call: no name": ("activity (1)", ["TWF120"]),
    "call: a keyword as name": ("activity all(1)", ["TWF122"]),
    "call: nothing after the arrow": ("activity A(1) ->", ["TWF120"]),
    "call: empty results": ("activity A(1) -> ()", ["TWF120"]),
    "call: a keyword as result": ("activity A(1) -> one", ["TWF122"]),
    "call: spawn of an activity": ("spawn activity A(1) -> h", ["TWF137"]),
    "call: spawn and detach": ("spawn detach workflow V(1)", ["TWF138"]),
    "call: detach with a result": ("detach workflow V(1) -> r", ["TWF140"]),
    "call: namespace without quotes": ("nexus n workflow V(1)", ["TWF139"]),
    "call: modifiers in the other order": ('nexus "n" spawn workflow V(1)', ["TWF120"]),
    "call: options on the same line": ("activity A(1) options(priority: 1)", ["TWF133"]),
    "call: options not indented": ("activity A(1)\noptions(priority: 1)", ["TWF133"]),
    "call: options twice": ("activity A(1)\n    options(priority: 1)\n    options(priority: 1)", ["TWF134"]),
    "call: another line under options": ("activity A(1)\n    options(priority: 1)\n    x = 1", ["TWF103"]),
    "call: a block under it": ("activity A(1)\n    x = 1", ["TWF103"]),
    "call: a definition in a body": ("workflow N():\n    close", ["TWF120"]),
    "assign: to a call": ("f() = 1", ["TWF149"]),
    "assign: to a literal": ("1 = 1", ["TWF149"]),
    "assign: to a keyword": ("all = 1", ["TWF122"]),
    "assign: an await": ("x = await timer(5m)", ["TWF136"]),
    "assign: options under it": ("x = activity A(1)\n    options(priority: 1)", ["TWF135"]),
    "await: nothing": ("await", ["TWF120"]),
    "await: an expression": ("await (a)", ["TWF120"]),
    "await: timer without a unit": ("await timer(5)", ["TWF111"]),
    "await: timer without anything": ("await timer()", ["TWF111"]),
    "await: timer with a result": ("await timer(5m) -> r", ["TWF120"]),
    "await one: timer with a result": ("await one:\n    timer(5m) -> r:\n        x = 1", ["TWF120"]),
    "await: timer without parentheses": ("await timer 5m", ["TWF120"]),
    "await: options under a timer": ("await timer(5m)\n    options(priority: 1)", ["TWF133"]),
    "await all: no block": ("await all:", ["TWF104"]),
    "await one: no block": ("await one:", ["TWF104"]),
    "await one: a statement": ("await one:\n    x = 1", ["TWF142"]),
    "await one: a nested one": ("await one:\n    await one:\n        timer(5m):", ["TWF142"]),
    "await one: options under a timer": (
        "await one:\n    timer(5m):\n        options(priority: 1)\n        x = 1",
        ["TWF133"],
    ),
    "await one: no colon": ("await one:\n    timer(5m)", ["TWF121"]),
    "if: no parentheses": ("if a:\n    x = 1", ["TWF125"]),
    "if: nothing": ("if ():\n    x = 1", ["TWF120"]),
    "if: elif": ("if (a):\n    x = 1\nelif (a):\n    x = 2", ["TWF128"]),
    "if: else if": ("if (a):\n    x = 1\nelse if (a):\n    x = 2", ["TWF128"]),
    "else: alone": ("else:\n    x = 1", ["TWF123"]),
    "for: no parentheses": ("for x in xs:\n    y = 1", ["TWF125"]),
    "for: a keyword as variable": ("for (one in xs):\n    y = 1", ["TWF122"]),
    "for: no block": ("for:", ["TWF104"]),
    "switch: a statement": ("switch (a):\n    x = 1\n    case 1:\n        x = 2", ["TWF123"]),
    "switch: two elses": (
        "switch (a):\n    case 1:\n        x = 1\n    else:\n        x = 2\n    else:\n        x = 3",
        ["TWF123"],
    ),
    "switch: case after else": ("switch (a):\n    else:\n        x = 1\n    case 1:\n        x = 2", ["TWF144"]),
    "switch: only a comment": ("switch (a):\n    # c", ["TWF143"]),
    "case: alone": ("case 1:\n    x = 1", ["TWF123"]),
    "close: two values": ("close a a", ["TWF120"]),
    "break: with a value": ("break 1", ["TWF120"]),
    "heartbeat: without parentheses": ("heartbeat", ["TWF120"]),
    "expression: without effect": ("a == 1", ["TWF126"]),
    "timer: as a statement": ("timer(5m)", ["TWF145"]),
    "dialect: promise": ("promise p <- workflow V(1)", ["TWF150"]),
    "dialect: raise": ("raise a", ["TWF150"]),
    "dialect: pass": ("pass", ["TWF150"]),
    "dialect: ellipsis": ("...", ["TWF150"]),
}


@pytest.mark.parametrize("production", STATEMENTS_ACCEPTED)
def test_a_statement_is_accepted(production: str) -> None:
    statement, extensions = STATEMENTS_ACCEPTED[production]
    assert syntax(in_body(statement)) == ([], extensions)


@pytest.mark.parametrize("production", STATEMENTS_REJECTED)
def test_a_statement_is_rejected(production: str) -> None:
    statement, codes = STATEMENTS_REJECTED[production]
    assert syntax(in_body(statement))[0] == codes


def test_words_of_other_dialects_stay_names() -> None:
    assert syntax(in_body("state = 1\nset(state)\nraise.a = 2\nparallel[0] = 3\nassert(state)"))[0] == []


def test_a_dropped_options_line_leaves_the_call_as_it_was() -> None:
    (workflow, *_) = parse(Source("a.twf", in_body("activity A(1)\noptions(priority: 1)"))).file.definitions
    assert [type(one).__name__ for one in workflow.body] == ["Call", "Close"]


# --- expressions

EXPRESSIONS: dict[str, tuple[str, list[str]]] = {
    "name": ("a", []),
    "number": ("12", []),
    "number with decimals": ("1.5", []),
    "duration": ("1.5h", ["duration"]),
    "string": ('"a\\b # ("', []),
    "true, false, null": ("true == false and null", []),
    "group": ("(a)", ["group"]),
    "list": ("[1, 2,]", ["list", "trailingcomma"]),
    "empty list": ("[]", ["list"]),
    "map": ('{k: 1, "b c": 2, if: 3}', ["keyname", "map"]),
    "constructor": ("R{a: 1, in: 2}", ["keyname"]),
    "empty constructor": ("R{}", []),
    "shorthand": ("R{a, xs.n}", ["shorthand"]),
    "field": ("xs.a.close", ["keyname"]),
    "index": ("xs[0][a]", []),
    "call": ("f(1, a)", []),
    "named arguments": ("f(1, to: 2)", ["kwarg"]),
    "method": ("xs.get(1)", ["methodcall"]),
    "unary": ("-a + not_a", []),
    "not": ("not a == 1", []),
    "several lines": ("f(\n        1\n    )", ["multiline"]),
}
BAD_EXPRESSIONS = {
    "nothing": ("", ["TWF120"]),
    "a keyword": ("workflow", ["TWF120"]),
    "another keyword": ("in", ["TWF122"]),
    "not inside a sum": ("a + not a", ["TWF122"]),
    "a missing operand": ("a +", ["TWF120"]),
    "two values": ("a a", ["TWF120"]),
    "chained comparison": ("1 < a < 3", ["TWF146"]),
    "positional after named": ("f(a: 1, 2)", ["TWF151"]),
    "a name twice": ("f(a: 1, a: 2)", ["TWF151"]),
    "a constructor without names": ("R{1, 2}", ["TWF147"]),
    "a map without keys": ("{1: 2}", ["TWF120"]),
    "two commas": ("f(1,, 2)", ["TWF120"]),
    "an open bracket": ("f(1", ["TWF107"]),
    "the wrong closer": ("f(1]", ["TWF108"]),
    "a foreign operator": ("a && a", ["TWF148"]),
    "a foreign character": ("a @ b", ["TWF105"]),
    "an open string": ('"abc', ["TWF106"]),
    "a compound duration": ("1h30m", ["TWF110"]),
    "a dot after digits": ("1.", ["TWF109"]),
}


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_an_expression_is_accepted(what: str) -> None:
    expression, extensions = EXPRESSIONS[what]
    assert syntax(f"workflow W(a: T, xs: T):\n    x = {expression}\n    close\n") == ([], extensions)


@pytest.mark.parametrize("what", BAD_EXPRESSIONS)
def test_an_expression_is_rejected(what: str) -> None:
    expression, codes = BAD_EXPRESSIONS[what]
    assert syntax(f"workflow W(a: T, xs: T):\n    x = {expression}\n    close\n")[0] == codes


# --- soft words and layout


@pytest.mark.parametrize(
    ("line", "reason", "kind"),
    [
        ("close failed", "failed", None),
        ("close failed a", "failed", "name"),
        ("close failed (a)", "failed", "group"),
        ("close failed {k: 1}", "failed", "map"),
        ("close failed.a", "completed", "field"),
        ("close failed[0]", "completed", "index"),
        ("close failed, a", "completed", "list"),
        ("close failed == a", "completed", "binary"),
        ("close failed - 1", "completed", "binary"),
        ("close completed failed", "completed", "name"),
    ],
)
def test_a_soft_word_is_a_reason_only_directly_after_close(
    line: str, reason: str, kind: str | None, tree: Callable[[str], Any]
) -> None:
    close = tree(f"workflow W(a: int):\n    {line}\n")[0]["body"][0]
    assert (close["reason"], close["value"] and close["value"]["kind"]) == (reason, kind)


def test_strict_reports_every_extension_with_its_tag() -> None:
    program = load([Source("a.twf", "workflow W():\n    x = [1]\n    x += 1\n    close x, 1\n")], strict=True)
    assert [(found.code, found.extension) for found in program.diagnostics] == [
        ("TWF190", "list"),
        ("TWF190", "augassign"),
        ("TWF190", "tuple"),
    ]
    assert not program.ok


def test_tabs_are_as_good_as_spaces() -> None:
    assert load([Source("a.twf", "workflow W():\n\tif (true):\n\t\tclose\n\tclose\n")]).diagnostics == ()


def test_the_line_break_of_windows_is_one_line_break(tree: Callable[[str], Any]) -> None:
    text = in_body("if (a):\n    x = f(1,\n        2)  # c\nelse:\n    x = 2")
    assert tree(text.replace("\n", "\r\n")) == tree(text)
