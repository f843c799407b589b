"""Writes docs/reference/cli.md out of the help pages: `python scripts/describe_cli.py --write`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from tenuto.cli import GROUPS, main
from tenuto.cli.exits import EXIT_CODES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
HEAD = """\
# The command line

Made of the help pages by `python scripts/describe_cli.py --write`; a test keeps it true.

Which store: `--url`, else the variable `TENUTO_URL`, else `sqlite:///.tenuto/tenuto.db` in the current folder. Commands
that only look open it for reading: they create, migrate and change nothing (SQLite may leave an empty `-wal` and a
`-shm` file beside it).

Whose code: `--app`, a module's name or a file, else `TENUTO_APP`. Directives in it are compiled. Its
`if __name__ == "__main__"` part is not run. Only what you name is loaded, never a name found in a store.

Values (arguments of workflows, signals, updates, queries) are written as JSON: `4200`, `'"tok_1"'`,
`'{"sku": "violin"}'`.

`--json` prints data instead of tables. Bytes become `{"bytes": "<base64>"}`, times ISO 8601 in UTC, and what JSON does
not know its `repr`. Whatever stands in ids, names, errors and values, none of it can move your cursor or change your
terminal: characters that are not visible are printed as escapes. Colours come on a terminal only, and not with
`NO_COLOR`.

## Completion

```sh
eval "$(_TENUTO_COMPLETE=bash_source tenuto)"                                      # bash, in ~/.bashrc
eval "$(_TENUTO_COMPLETE=zsh_source tenuto)"                                       # zsh, in ~/.zshrc
_TENUTO_COMPLETE=fish_source tenuto > ~/.config/fish/completions/tenuto.fish       # fish
```
"""


def describe_cli() -> str:
    """The whole page."""
    parts = [HEAD, "## Exit codes\n\n| code | means |\n| --- | --- |"]
    parts[-1] += "".join(f"\n| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()) + "\n"
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            for path in _paths(name):
                parts.append(f"### tenuto {' '.join(path)}\n\n```text\n{_help(path)}```\n")
    return "\n".join(parts)


def _paths(name: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(main)
    command = main.get_command(context, name)
    yield (name,)
    if isinstance(command, click.Group):
        yield from ((name, below) for below in command.list_commands(context))


def _help(path: tuple[str, ...]) -> str:
    return CliRunner().invoke(main, [*path, "--help"], terminal_width=100, prog_name="tenuto").output


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(describe_cli(), encoding="utf-8")
    else:
        print(describe_cli(), end="")
