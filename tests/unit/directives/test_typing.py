"""Both type checkers, strict and without plugins, on code with directives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parent / "typed"
EXAMPLE = Path(__file__).parents[3] / "examples" / "directives"
CHECKED = [
    TYPED / "accepted.py",
    TYPED / "refused.py",
    EXAMPLE / "main.py",
    *sorted((EXAMPLE / "parcels").glob("*.py")),
]


def mypy(tmp_path: Path) -> set[tuple[str, int]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "--output=json"]
    done = subprocess.run([*command, *map(str, CHECKED)], capture_output=True, text=True, cwd=EXAMPLE)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(Path(entry["file"]).name, entry["line"]) for entry in found if entry["severity"] == "error"}


def pyright(tmp_path: Path) -> set[tuple[str, int]]:
    for file in CHECKED:  # pyright checks what is below its settings file
        target = tmp_path / ("parcels" if file.parent.name == "parcels" else "") / file.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(file, target)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in found if e["severity"] == "error"}


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_d099_d100_the_right_lines_are_refused_and_no_other(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    lines = (TYPED / "refused.py").read_text(encoding="utf-8").splitlines()
    expected = {("refused.py", number) for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(expected) == 8
    assert checker(tmp_path) == expected
