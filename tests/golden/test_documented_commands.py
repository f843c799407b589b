"""Every `tenuto …` line in the documentation is a command that exists, with options that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tenuto.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
GENERATED = {ROOT / "docs" / "reference" / "cli.md"}  # made of the help pages themselves
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINES = [
    (str(page.relative_to(ROOT)), line.removeprefix("$ "))
    for page in sorted(set(PAGES) - GENERATED)
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8"))
    for line in block.splitlines()
    if kind in ("", "sh", "console") and re.match(r"(\$ )?tenuto ", line)
]


def test_there_are_commands_in_the_documentation() -> None:
    assert len(LINES) > 10


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_line_names_what_there_is(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = main
    path: list[str] = []
    while isinstance(command, click.Group):
        path.append(words.pop(0))
        found = command.get_command(click.Context(command), path[-1])
        assert found is not None, f"{page}: {line}"
        command = found
    known = set(re.findall(r"--[a-z-]+", CliRunner().invoke(main, [*path, "--help"]).output))
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= known, f"{page}: {line}"
