"""The tree as plain data: every kind of node, its fields, its place."""

from __future__ import annotations

import json
from typing import Any

from tenuto.twf.jsonform import program_json
from tenuto.twf.program import load
from tenuto.twf.source import Source

EVERYTHING = """\
# above
workflow W(a: int, xs: []int) -> (int, T):
    options(timeout: 5m)
    signal S(p: int):
        y = p
    query Q() -> (int):
        return y
    update U(p: int) -> (int):
        return p
    x = -1.5 + (2) * f(a, k: 1)[0].z
    s.n += {k: true, "b": null}
    activity A(R{a, b.c, d: "t"}) -> r  # behind
        options(priority: 1)
    h = spawn workflow V(1)
    await nexus "n" workflow V(1) -> (q, w)
    await timer(10ms)
    await h -> v
    await all:
        g()
    await one:
        signal S -> (k):
        update U:
            break
        await all:
            activity A(1)
    if (not x):
        continue
    else:
        return 1, 2
    for:
        heartbeat(1)
    for (x < 1):
        continue_as_new(1)
    for (i in xs):
        close failed i
    switch (x):
        case 1:
            close
        else:
            x y
"""


def kinds_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["kind"]} if "kind" in value else set[str]()
        return own.union(*(kinds_of(item) for item in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(kinds_of(item) for item in value))
    return set()


def read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(program_json(load([Source("a.twf", text)]))))
    return found


def test_every_kind_of_node_has_its_name() -> None:
    found = read(EVERYTHING)
    assert kinds_of(found["files"][0]["definitions"]) == {
        *("workflow", "activity", "signal", "query", "update", "options"),
        *("call", "await", "await_all", "await_one", "if", "for", "switch", "close", "return", "continue_as_new"),
        *("heartbeat", "assign", "expr", "break", "continue", "error"),
        *("timer", "handle", "all"),
        *("name", "number", "duration", "string", "bool", "null", "binary", "unary", "index", "field", "construct"),
        *("map", "list", "group"),
    }


def test_comments_and_extensions_stand_beside_the_tree() -> None:
    file = read(EVERYTHING)["files"][0]
    assert [(one["text"], one["own"], one["span"]) for one in file["comments"]] == [
        ("# above", True, [1, 1, 1, 8]),
        ("# behind", False, [12, 41, 12, 49]),
    ]
    assert {"tag": "wfoptions", "span": [3, 5, 3, 12]} in file["extensions"]


def test_a_definition_has_the_documented_fields() -> None:
    (workflow, *_) = read(EVERYTHING)["files"][0]["definitions"]
    assert list(workflow) == ["kind", "span", "name", "params", "returns", "options", "handlers", "body"]
    assert workflow["params"][1] == {
        "span": [2, 20, 2, 29],
        "name": {"name": "xs", "span": [2, 20, 2, 22]},
        "type": {"span": [2, 24, 2, 29], "text": "[]int"},
    }
    assert workflow["returns"] == [{"span": [2, 35, 2, 38], "text": "int"}, {"span": [2, 40, 2, 41], "text": "T"}]
    assert workflow["handlers"][0]["returns"] is None


def test_statements_have_the_documented_fields() -> None:
    body = read(EVERYTHING)["files"][0]["definitions"][0]["body"]
    by_kind: dict[str, dict[str, Any]] = {}
    for statement in body:
        by_kind.setdefault(statement["kind"], statement)
    fields = {kind: set(node) - {"kind", "span"} for kind, node in by_kind.items()}
    assert fields == {
        "assign": {"place", "op", "value"},
        "call": {"target", "result", "options", "form"},
        "await": {"target", "result", "options"},
        "await_all": {"body"},
        "await_one": {"cases"},
        "if": {"condition", "body", "else"},
        "for": {"mode", "variable", "expr", "body"},
        "switch": {"subject", "cases", "else"},
    }
    assert by_kind["await_one"]["cases"][0]["body"] is None
    assert by_kind["switch"]["else"][0]["text"] == "x y"
    assert [one["mode"] for one in body if one["kind"] == "for"] == ["ever", "while", "each"]


def test_targets_have_the_documented_fields() -> None:
    body = read(EVERYTHING)["files"][0]["definitions"][0]["body"]
    remote = next(one for one in body if one["kind"] == "await")["target"]
    assert set(remote) == {"kind", "span", "name", "args", "mode", "namespace", "resolved"}
    assert (remote["mode"], remote["namespace"]["value"], remote["resolved"]) == ("child", "n", None)
    handle = [one for one in body if one["kind"] == "await"][2]["target"]
    assert (handle["kind"], handle["resolved"]) == ("handle", {"path": "a.twf", "span": [14, 5, 14, 6]})
