"""The `tenuto` command line: one thin module per command, loaded only when it is used."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from tenuto.errors import TenutoError

__all__ = ["COMMANDS", "main"]

# Command name -> (module below tenuto.cli, one line of help). A module has a click command called `command`.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "bench": ("bench", "Measure this machine: durable steps, starts, signals, replay."),
    "cancel": ("cancel", "Ask a run to stop; it may clean up."),
    "check": ("check", "Replay the open runs of a store with the code here: which would diverge?"),
    "compile": ("compile", "Show what the directive compiler makes of a file."),
    "demo": ("demo", "An order that survives the death of its worker."),
    "dev": ("dev", "Run a worker that takes over changes of the code."),
    "doctor": ("doctor", "Look at versions, store, clock, stuck runs, size and start-up time."),
    "explain": ("explain", "Say why a run is where it is, and what would wake it."),
    "export": ("export", "Write a run to a file."),
    "import": ("import_run", "Take a run from a file into a local store, and replay it."),
    "lint": ("lint", "Find what makes workflow code behave differently on replay."),
    "manifest": ("manifest", "List steps and workflows without importing them."),
    "pause": ("pause", "Hold a run after the work under way."),
    "query": ("query", "Show what a run publishes, or what a query makes of it."),
    "recover": ("recover", "Run a failed run on from the step that failed it."),
    "resume": ("resume", "Let a paused or parked run go on."),
    "rewind": ("rewind", "Take a run back to a place; what came after is done again."),
    "run": ("run", "Run a script with directives compiled."),
    "runs": ("runs", "List runs."),
    "schedules": ("schedules", "List schedules, hold them, let them go on."),
    "show": ("show", "Show a run: timeline, history, state, why it waits."),
    "signal": ("signal", "Send a signal to a run."),
    "start": ("start", "Start a run."),
    "supply": ("supply", "Give an open step its result."),
    "terminate": ("terminate", "Close a run at once; none of its code runs any more."),
    "twf": ("twf", "Check, format, draw and explore TWF programs."),
    "update": ("update", "Send an update to a run and wait for its answer."),
    "wake": ("wake", "Give a run a turn; nothing fires early."),
    "worker": ("worker", "Run workers until they are told to stop."),
}
# How the help lists them; a command that is in none of these comes last.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Begin": ("demo", "dev", "run", "worker", "start"),
    "Look": ("runs", "show", "explain", "query", "doctor", "bench"),
    "Act": (
        "signal",
        "update",
        "cancel",
        "terminate",
        "pause",
        "resume",
        "wake",
        "recover",
        "rewind",
        "supply",
        "schedules",
    ),
    "Change code": ("check", "export", "import", "compile", "manifest", "lint", "twf"),
}


class LazyGroup(click.Group):
    """Knows every command by name and imports its module on first use, so that `tenuto --help` stays fast."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The program itself; tests and other programs call `main`, and stay."""
        try:
            return super().__call__(*args, **kwargs)
        except SystemExit as over:
            if "temporalio" in sys.modules:
                _leave(over.code)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"tenuto.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)  # noqa: S101  # our own table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, "More": tuple(name for name in self.list_commands(ctx) if name not in listed)}
        for title, names in groups.items():
            there = [(name, COMMANDS[name][1]) for name in names if name in COMMANDS]
            if there:
                with formatter.section(title):
                    formatter.write_dl(there)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from tenuto.cli.exits import EXIT_CODES

        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; an error becomes one message and an exit code, never a traceback."""
        _write_anything()
        try:
            return super().invoke(ctx)
        except (TenutoError, TimeoutError) as error:
            from tenuto.cli.exits import exit_code_of
            from tenuto.cli.output import complain

            complain(error)
            sys.exit(exit_code_of(error))
        except KeyboardInterrupt:
            sys.exit(130)


def _leave(code: Any) -> NoReturn:
    """End the process at once: threads of the SDK may abort an interpreter that shuts down."""
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _write_anything() -> None:
    """A terminal that cannot show a character shows its escape; nothing fails over it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tenuto")
def main() -> None:
    """Durable execution for Python: functions that run to their end whatever crashes in between.

    Commands that work on runs take --url (or TENUTO_URL); those that need your code take --app (or TENUTO_APP).
    Those that print data take --json.
    """
