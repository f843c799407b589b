"""Describes the public surface as text: names, signatures, types. `--write` renews the golden file.

python scripts/describe_surface.py [--write]
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import get_origin

MODULES = ("tenuto", "tenuto.errors", "tenuto.testing")
GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "api.txt"


def describe_surface(*modules: str) -> str:
    """One line per public name and per public member of a public class."""
    lines: list[str] = []
    for module_name in modules:
        module = import_module(module_name)
        lines.append(f"# {module_name}")
        for name in sorted(module.__all__):
            lines.extend(_describe(name, getattr(module, name)))
        lines.append("")
    return "\n".join(lines)


def _describe(name: str, item: object) -> list[str]:
    if isinstance(item, UnionType) or get_origin(item) is not None:
        return [f"{name}: type alias"]  # what it says of itself differs between versions of Python
    if not inspect.isclass(item):
        return [f"{name}{_signature(item)}"]
    bases = ", ".join(base.__name__ for base in item.__bases__ if base is not object)
    code = f"  code={item.__dict__['code']}" if isinstance(item.__dict__.get("code"), str) else ""
    lines = [f"class {name}({bases}){code}"]
    for member, value in sorted(vars(item).items()):
        if member.startswith("_") and member != "__init__":
            continue
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(function):
            lines.append(f"    {name}.{member}{_signature(function)}")
        elif isinstance(value, property):
            lines.append(f"    {name}.{member}: property")
    return lines


def _signature(item: object) -> str:
    if not callable(item):
        return f" = {type(item).__name__}"
    try:
        return str(inspect.signature(item))
    except (TypeError, ValueError):
        return "(...)"


if __name__ == "__main__":
    text = describe_surface(*MODULES)
    if "--write" in sys.argv:
        GOLDEN.write_text(text, encoding="utf-8")
    else:
        print(text)
