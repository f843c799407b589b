"""The host and the stores take clocks, randomness and threads from `tenuto.system`, and nothing from the order of sets.

Both are what lets a simulation run them as they are: what is asked of the machine here would be real there, and sets
have their members in order of addresses or of hashes, which differ from process to process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[2] / "src" / "tenuto"
MODULES: Final = frozenset({"concurrent", "multiprocessing", "queue", "random", "secrets", "threading", "time", "uuid"})
NAMES: Final = frozenset({"getrandom", "run_in_executor", "to_thread", "urandom"})
EXCEPTED: Final = {
    "host/blocking.py": "the thread that programs without an event loop get: it is the app's, and around every system",
}

SETS: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet"})
# Calls that take the members of a set in its order and keep it.
ORDERED: Final = frozenset({"dict", "enumerate", "iter", "list", "map", "next", "tuple", "zip", "deque", "fromkeys"})
# Calls whose result is the same in whatever order they are given.
UNORDERED: Final = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})


def findings(text: str) -> list[str]:
    """What a module does that it must leave to `system`: line and reason."""
    tree = ast.parse(text)
    return sorted({*_asked_of_the_machine(tree), *_Sets(tree).iterated()})


def _scopes(tree: ast.AST) -> Iterator[ast.AST]:
    """The module without what is in its functions, and each function with what is in it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _scopes(node)


def _asked_of_the_machine(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                asked = [name.name for name in names if name.name.partition(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                whole = module.partition(".")[0] in MODULES
                asked = [f"{module}.{name.name}" for name in names if whole or name.name in NAMES]
            case ast.Attribute(attr=name) if name in NAMES or name.startswith("ThreadPool"):
                asked = [name]
            case _:
                continue
        yield from (f"{node.lineno}: {name}" for name in asked)


class _Sets:
    """What is a set in a module, as far as its text says: by annotation, by what is assigned, by what makes it."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._functions = list(_scopes(tree))
        self._names: set[str] = set()  # in the function that is being read; attributes and globals in all
        self._everywhere: set[str] = set()
        self._returned: set[str] = set()
        inside = {node for function in self._functions for node in ast.walk(function)}
        outside = [node for node in ast.walk(tree) if node not in inside]
        for _ in range(2):  # a set may be assigned from another one
            self._read(outside)
            self._everywhere |= self._names
            for function in self._functions:
                self._read(ast.walk(function))
                self._everywhere |= {name for name in self._names if "." in name}
        self._outside = outside

    def _read(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        """Learn what is a set among nodes; return them."""
        found = list(nodes)
        self._names = set(self._everywhere)
        for _ in range(2):
            for node in found:
                self._learn(node)
        return found

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.AnnAssign(target=target, annotation=annotation):
                if _says_set(annotation):
                    self._names.add(ast.unparse(target))
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                if _says_set(annotation):
                    self._names.add(name)
            case (
                ast.FunctionDef(name=name, returns=ast.expr() as annotation)
                | ast.AsyncFunctionDef(name=name, returns=ast.expr() as annotation)
            ):
                if _says_set(annotation):
                    self._returned.add(name)
            case ast.Assign(targets=[target], value=value):
                if self.is_set(value):
                    self._names.add(ast.unparse(target))
            case ast.NamedExpr(target=target, value=value):
                if self.is_set(value):
                    self._names.add(target.id)
            case _:
                pass

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self._names or name in {"CLOSED", "OPEN", "STATUSES"}
            case ast.Attribute():
                return ast.unparse(node) in self._names
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                return name in {"set", "frozenset"} or name in self._returned
            case ast.Await(value=value):
                return self.is_set(value)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub(), right=right):
                return any(self.is_set(side) or _is_keys(side) for side in (left, right))
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_set(body) or self.is_set(orelse)
            case _:
                return False

    def iterated(self) -> Iterator[str]:
        harmless = {
            argument
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Call) and _called(node) in UNORDERED
            for argument in node.args
        }
        for nodes in (self._outside, *map(ast.walk, self._functions)):
            for node in self._read(nodes):
                for asked in self._asked_in_order(node, harmless):
                    if self.is_set(asked):
                        yield f"{asked.lineno}: the order of {ast.unparse(asked)}"

    @staticmethod
    def _asked_in_order(node: ast.AST, harmless: set[ast.expr]) -> list[ast.expr]:
        match node:
            case ast.For(iter=asked) | ast.AsyncFor(iter=asked):
                return [asked]
            case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                return [] if node in harmless else [part.iter for part in parts]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [item.value for item in items if isinstance(item, ast.Starred)]
            case ast.Call(args=arguments):
                called = _called(node)
                starred = [item.value for item in arguments if isinstance(item, ast.Starred)]
                popped = isinstance(node.func, ast.Attribute) and called == "pop" and not arguments
                taken = [node.func.value] if popped and isinstance(node.func, ast.Attribute) else []
                return starred + taken + (arguments if called in ORDERED or called in {"join", "extend"} else [])
            case _:
                return []


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _says_set(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Name(id=name):
            return name in SETS
        case ast.Subscript(value=value):
            return _says_set(value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _says_set(left) or _says_set(right)
        case _:
            return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called(node) in {"keys", "items"}


@pytest.mark.parametrize("package", ["host", "store"])
def test_nothing_is_asked_of_the_machine_and_no_set_is_taken_in_its_order(package: str) -> None:
    found = {
        place: bad
        for path in sorted((SOURCE / package).rglob("*.py"))
        if (place := path.relative_to(SOURCE).as_posix()) not in EXCEPTED and (bad := findings(path.read_text("utf-8")))
    }
    assert found == {}, "take it from tenuto.system; use a dict, or sort"


def test_what_is_excepted_is_there_and_needs_it() -> None:
    assert all(findings((SOURCE / place).read_text("utf-8")) for place in EXCEPTED)


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "import threading as t",
        "from secrets import token_hex",
        "from os import urandom",
        "from concurrent.futures import Executor",
        "os.urandom(8)",
        "await asyncio.to_thread(work)",
        "loop.run_in_executor(None, work)",
        "for item in {1, 2}: pass",
        "a: set[str] = b\nfor item in a: pass",
        "def f(a: frozenset[int] | None): return [*a]",
        "self.waiting: set[int] = made()\nx = [item for item in self.waiting]",
        "a = {1} | b\nlist(a)",
        "tuple(a.keys() - b.keys())",
        "a = set(b)\nc = a\nc.pop()",
        "async def f() -> set[str]: ...\nfor item in await f(): pass",
        "', '.join({x for x in y})",
        "dict.fromkeys(set(a))",
        "list(OPEN)",
        "class A:\n    def f(self):\n        self.a = {1}\n    def g(self):\n        return list(self.a)",
    ],
)
def test_each_way_to_it_is_found(line: str) -> None:
    assert findings(line)


@pytest.mark.parametrize(
    "line",
    [
        "import asyncio\nawait asyncio.sleep(1)",
        "self.system.clock.monotonic()",
        "def at(time: int) -> int: return time",
        "a = {1}\nsorted(a)",
        "a = {1}\nany(x for x in a)",
        "a = {1}\nb = {x for x in a}",
        "a = {1}\nlen(a)\n1 in a",
        "a = {1: 2}\nfor x in a: pass",
        "def f():\n    a = {1}\ndef g(a: list[int]):\n    for x in a: pass",
        "for x in a.keys(): pass",
    ],
)
def test_what_is_no_way_to_it_is_let_be(line: str) -> None:
    assert findings(line) == []
