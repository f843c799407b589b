"""Lists the rooms of the source that are too large. `--write` renews tests/golden/rooms.txt, which may only shrink.

python scripts/describe_rooms.py [--write]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "tenuto"
GOLDEN: Final = ROOT / "tests" / "golden" / "rooms.txt"

MODULES: Final = 20  # in a folder
LINES: Final = 400  # of a module
CLASS_LINES: Final = 250
ATTRIBUTES: Final = 15  # of an instance
FUNCTION_LINES: Final = 60

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Room: TypeAlias = tuple[str, int]


def rooms() -> list[Room]:
    """What is over its limit: what it is, and how large."""
    paths = sorted(SOURCE.rglob("*.py"))
    folders = Counter(path.parent for path in paths if path.name != "__init__.py")
    found = [(f"folder {_shown(folder)}: modules", count) for folder, count in folders.items() if count > MODULES]
    for path in paths:
        text = path.read_text("utf-8")
        lines = text.count("\n")
        if lines > LINES:
            found.append((f"module {_shown(path)}: lines", lines))
        found.extend((f"{what} in {_shown(path)}: {of}", size) for what, of, size in _inside(ast.parse(text)))
    return sorted(found)


def _inside(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    for node in ast.walk(tree):
        size = (node.end_lineno or 0) - node.lineno + 1 if isinstance(node, ast.ClassDef | Function) else 0
        if isinstance(node, Function) and size > FUNCTION_LINES:
            yield f"function {node.name}", "lines", size
        if isinstance(node, ast.ClassDef):
            if size > CLASS_LINES:
                yield f"class {node.name}", "lines", size
            if (count := len(_attributes(node))) > ATTRIBUTES:
                yield f"class {node.name}", "attributes", count


def _attributes(made: ast.ClassDef) -> set[str]:
    """What its methods set on `self`."""
    return {
        target.attr
        for target in ast.walk(made)
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
        if isinstance(target.value, ast.Name) and target.value.id == "self"
    }


def _shown(path: Path) -> str:
    return path.relative_to(SOURCE.parent).as_posix()


def read() -> dict[str, int]:
    """The rooms that are known to be too large."""
    pairs = (line.rpartition(" ") for line in GOLDEN.read_text("utf-8").splitlines())
    return {what: int(size) for what, _, size in pairs}


def main() -> None:
    text = "".join(f"{what} {size}\n" for what, size in rooms())
    if "--write" in sys.argv:
        GOLDEN.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
