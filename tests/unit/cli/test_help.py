"""Help pages: what they say is a promise, so every one is a snapshot; and `tenuto --help` is quick."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

from tenuto.cli import COMMANDS, GROUPS, main
from tenuto.cli.exits import EXIT_CODES

ROOT = Path(__file__).parents[3]


def paths(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command there is, those below commands included."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from paths(below, (*path, name))


@pytest.mark.parametrize("path", list(paths()), ids=lambda path: "-".join(path) or "tenuto")
def test_every_help_page_is_the_one_in_its_snapshot(
    path: tuple[str, ...], tenuto: Callable[..., Result], golden: Callable[[str, str], None]
) -> None:
    shown = tenuto(*path, "--help")
    assert shown.exit_code == 0, shown.output
    golden("help/" + ("-".join(("tenuto", *path))), shown.output)


def test_every_command_stands_in_a_group_of_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


def test_the_one_line_of_a_command_says_what_its_page_says(tenuto: Callable[..., Result]) -> None:
    page = tenuto("--help").output
    for code, meaning in EXIT_CODES.items():
        assert str(code) in page
        assert meaning.split(":")[0] in page
    for name, (_, line) in COMMANDS.items():
        assert name in page
        assert line.split()[0] in page


def test_the_reference_is_made_of_the_help_pages() -> None:
    """`python scripts/describe_cli.py --write` makes a changed page a visible diff."""
    script = runpy.run_path(str(ROOT / "scripts" / "describe_cli.py"))
    assert script["describe_cli"]() == (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def test_the_help_loads_neither_a_database_driver_nor_rich() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tenuto.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print(sorted({'apsw', 'psycopg', 'rich', 'temporalio', 'cryptography'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tenuto.cli"],
        env={"_TENUTO_COMPLETE": f"{shell}_source", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_TENUTO_COMPLETE" in done.stdout, done.stderr
