"""The `tenuto` command line: one thin module per command, loaded only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

__all__ = ["main"]

# Command name -> (module below tenuto.cli, one line of help). A module has a click command called `command`.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "compile": ("compile", "Show what the directive compiler makes of a file."),
    "lint": ("lint", "Find what makes workflow code behave differently on replay."),
    "manifest": ("manifest", "List steps and workflows without importing them."),
    "run": ("run", "Run a script with directives compiled."),
    "twf": ("twf", "Check, format, draw and explore TWF programs."),
}


class LazyGroup(click.Group):
    """Knows every command by name and imports its module on first use, so that `tenuto --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"tenuto.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)  # noqa: S101  # our own table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tenuto")
def main() -> None:
    """Durable execution for Python: functions that run to their end whatever crashes in between."""
