"""What the source of a definition says about it: the hash of its module, and a directive that nobody compiled."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from tenuto.errors import NotCompiledError

__all__ = [
    "definition_hash",
    "is_interactive",
    "is_nameless",
    "module_tree",
    "not_compiled",
    "source_file",
    "tree_hash",
]

DIRECTIVES: Final = frozenset({"use step", "use workflow"})
VERSION_VARIABLE: Final = "TENUTO_APP_VERSION"

_hashes: dict[bytes, str] = {}  # source text (digested) -> hash of its tree


def source_file(definition: Callable[..., Any] | type) -> str | None:
    """The source file of a function or class, or None where there is none (REPL, notebook)."""
    plain: Any = definition if isinstance(definition, type) else inspect.unwrap(definition)
    name: str = getattr(plain, "__module__", None) or ""
    file: object = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__":  # what is typed in belongs to the main module, whatever that was run from
        code = _code_of(plain)
        if code is not None and (file is None or code.co_filename != file):
            file = None if is_nameless(code.co_filename) else file or code.co_filename
    if not isinstance(file, str) or file.startswith("<"):
        return None
    return file[:-1] if file.endswith((".pyc", ".pyo")) else file


def is_interactive(definition: Callable[..., Any] | type) -> bool:
    """True for what was typed into a REPL or a notebook: no other process can have it."""
    return source_file(definition) is None


def _code_of(plain: Any) -> CodeType | None:
    if isinstance(plain, type):  # of a class, that of its first method
        plain = next((value for value in vars(plain).values() if isinstance(value, FunctionType)), None)
    return plain.__code__ if isinstance(plain, FunctionType) else None


def is_nameless(file: str) -> bool:
    """True for a name in `<...>`, and for that of a file that is not there, as those that Jupyter gives to cells."""
    if file.startswith("<"):
        return True
    if file.endswith((".pyc", ".pyo")) or os.path.exists(file):
        return False
    folder = os.path.dirname(file)
    while folder and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return not os.path.isfile(folder)  # else it is in an archive


def module_tree(definition: Callable[..., Any]) -> ast.Module | None:
    """The syntax tree of the module that defines a function, as written; None when its source is not to be had."""
    text = _module_text(definition)
    try:
        return None if text is None else ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError):
        return None


def _module_text(definition: Callable[..., Any]) -> str | None:
    file = source_file(definition)
    if file is None:
        return None
    names: dict[str, Any] = getattr(inspect.unwrap(definition), "__globals__", {})
    loaded = getattr(names.get("__loader__"), "loaded_source", None)
    if callable(loaded):  # the text that is running, whatever the file says by now
        return str(loaded())
    linecache.checkcache(file)
    return "".join(linecache.getlines(file, names)) or None


def definition_hash(fn: Callable[..., Any]) -> str:
    """SHA-256 over the syntax tree of the module that defines `fn`, and the application's own version if one is set.

    Positions, comments and docstrings do not count. Without a source (REPL) the function's code stands for it.
    """
    digest = hashlib.sha256()
    text = _module_text(fn)
    if text is None:
        code = getattr(inspect.unwrap(fn), "__code__", None)
        digest.update("\n".join(_describe_code(code)).encode() if isinstance(code, CodeType) else repr(fn).encode())
    else:
        digest.update(_text_hash(text).encode())
    version = os.environ.get(VERSION_VARIABLE)
    if version:
        digest.update(b"\0" + version.encode())
    return digest.hexdigest()


def _text_hash(text: str) -> str:
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    if key not in _hashes:
        try:
            _hashes[key] = tree_hash(ast.parse(text))
        except (SyntaxError, RecursionError, MemoryError):  # being edited, or nested too deeply: the text stands for it
            return key.hex()
    return _hashes[key]


def tree_hash(tree: ast.Module) -> str:
    """SHA-256 over a tree without positions and docstrings, equal on every version of Python that parses it."""
    parts: list[str] = []
    _describe(tree, parts)
    return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _describe(value: object, parts: list[str]) -> None:
    """Append a text of this tree that leaves out empty fields, since new versions of Python add such."""
    if isinstance(value, ast.AST):
        parts.append(f"{type(value).__name__}(")
        for name, field in ast.iter_fields(value):
            if field is None or field == [] or name in ("type_comment", "type_ignores", "ctx"):
                continue
            parts.append(f"{name}=")
            _describe(field, parts)
        parts.append(")")
    elif isinstance(value, list):
        parts.append("[")
        for item in value:  # pyright: ignore[reportUnknownVariableType]  # a list of nodes, names or constants
            if not (isinstance(item, ast.Expr) and _is_inert_text(item)):
                _describe(item, parts)  # pyright: ignore[reportUnknownArgumentType]
                parts.append(",")
        parts.append("]")
    else:
        parts.append(repr(value))


def _is_inert_text(statement: ast.Expr) -> bool:
    value = statement.value
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value not in DIRECTIVES


def _describe_code(code: CodeType) -> Iterator[str]:
    yield f"{code.co_name} {code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _describe_code(constant)
        else:
            yield repr(constant)


def not_compiled(fn: Callable[..., Any]) -> NotCompiledError | None:
    """The error to raise for a function that carries a directive no hook has compiled; None if it carries none.

    Looks at the source, not at `__doc__`, wherever there is one: optimised bytecode has no docstrings.
    """
    plain = inspect.unwrap(fn)
    if not isinstance(plain, FunctionType) or "__tenuto_manifest__" in plain.__globals__:
        return None
    file = source_file(plain)
    if file is None:
        text = _typed_directive(plain)
        if text is None:
            return None
        return NotCompiledError(
            f'{plain.__qualname__} says "{text}", but it was typed into a notebook or at a prompt: '
            "directives are compiled in files only",
            f"mark it with @{text.removeprefix('use ')}, or put it into a file of the project",
        )
    tree = module_tree(plain)
    text = None if tree is None else _directive_of(tree, plain)
    if text is None:
        return None
    return NotCompiledError(
        f'{plain.__qualname__} in {file} says "{text}", but no import hook compiled that file; '
        "`import tenuto.auto` before it is imported, or run the script with `tenuto run`"
    )


def _typed_directive(fn: FunctionType) -> str | None:
    """The directive of a function that was typed in: from the text that the shell kept, if it kept one."""
    cell = "".join(linecache.getlines(fn.__code__.co_filename))
    found: str | None = None
    try:
        if cell:
            found = _directive_of(ast.parse(cell), fn)
        else:
            statement = ast.parse(textwrap.dedent(inspect.getsource(fn))).body[0]
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                found = _prologue_directive(statement.body)
    except (OSError, SyntaxError, IndexError):
        pass
    return found or (fn.__doc__ if fn.__doc__ in DIRECTIVES else None)


def _directive_of(tree: ast.Module, fn: FunctionType) -> str | None:
    own = _prologue_directive(tree.body)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != fn.__name__:
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if first == fn.__code__.co_firstlineno:
            found = _prologue_directive(node.body)
            exported = isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_")
            return found or (own if exported and node in tree.body else None)
    return None


def _prologue_directive(body: list[ast.stmt]) -> str | None:
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            continue
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            return None
        value = statement.value.value
        if isinstance(value, str) and value in DIRECTIVES:
            return value
        if not isinstance(value, str):
            return None
    return None
