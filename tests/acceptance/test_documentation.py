"""Every Python example in the documentation runs as it is written."""

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


def _examples() -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{number}", match[1])
        for page in PAGES
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("where", "code"), _examples(), ids=lambda item: item if item.count("\n") == 0 else "")
def test_an_example_runs_as_written(where: str, code: str, tmp_path: Path) -> None:
    if re.search(r"^(async )?def test_", code, re.MULTILINE):
        (tmp_path / "test_example.py").write_text(code, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "."]
    else:
        (tmp_path / "example.py").write_text(code, encoding="utf-8")
        command = [sys.executable, "example.py"]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"


def test_the_readme_fits_its_limit() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200
