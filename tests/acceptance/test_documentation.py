"""Every Python example in the documentation runs as it is written.

An example stands alone, in a folder of its own, with one exception: one whose first line names a file (`# order.py`)
is written under that name, and the later examples of its page find it there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
TUTORIAL = ROOT / "docs" / "tutorial" / "first-ten-minutes.md"


def _blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def _examples() -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{number}", code) for page in PAGES for number, code in enumerate(_blocks(page), 1)
    ]


def _write(where: str, code: str, folder: Path) -> Path:
    """Writes an example, and the named files that come before it on its page."""
    page, number = where.rsplit(":", 1)
    for before in _blocks(ROOT / page)[: int(number) - 1]:
        if (named := FILE.match(before)) is not None:
            (folder / named[1]).write_text(before, encoding="utf-8")
    named = FILE.match(code)
    file = folder / (named[1] if named is not None else "example.py")
    file.write_text(code, encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.parametrize(("where", "code"), _examples(), ids=lambda item: item if item.count("\n") == 0 else "")
def test_an_example_runs_as_written(where: str, code: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = _write(where, code, tmp_path)
    if re.search(r"^(async )?def test_", code, re.MULTILINE):
        command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", file.name]
    else:
        command = [sys.executable, file.name]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    if "DATABASE_URL" in code:
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"


def test_the_readme_fits_its_limit() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_first_durable_run_is_twelve_lines_and_needs_nothing() -> None:
    """One file, no configuration, no decorator argument; the same in the README and in the tutorial."""
    first = _blocks(ROOT / "README.md")[0]
    lines = [line for line in first.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= 12
    assert "Tenuto()" in first or "Tenuto.sync()" in first
    assert re.search(r"@(step|workflow)\(", first) is None
    assert _blocks(TUTORIAL)[0] == f"# hello.py\n{first}"


def test_no_link_between_pages_is_broken() -> None:
    broken: list[str] = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
