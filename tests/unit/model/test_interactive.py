"""Definitions that are typed in: at a prompt, in IPython, in the cells of a notebook (D022)."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What shells call the source of what is typed in; N is the number of the cell or statement.
SHELLS = ["<stdin>", "<console>", "<python-input-N>", "<ipython-input-N-2f1c>", "/gone/ipykernel_4242/23881595N.py"]

DRIVER = """
import asyncio, linecache, sys, warnings
warnings.simplefilter("always")
cells = 0

def cell(text):
    global cells
    cells += 1
    name = SHELL.replace("N", str(cells))
    if KEPT:  # IPython and Python 3.13 keep the text
        linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), globals())

async def run(x):
    async with Tenuto("memory://") as app:
        return await (await app.start(x)).result(timeout=20)

def show(x):
    try:
        print("RESULT", asyncio.run(run(x)))
    except Exception as error:
        print("ERROR", type(error).__name__, str(error).replace(chr(10), " "))
"""


def session(*cells: str, shell: str = "<python-input-N>", kept: bool = True) -> tuple[list[str], str]:
    """What the cells print, and what they write to stderr, in a process whose main module has no file."""
    lines = [f"SHELL, KEPT = {shell!r}, {kept!r}", DRIVER, *(f"cell({text!r})" for text in cells)]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


BEGIN = "from tenuto import *\nimport time\n"
STEP = "@step\nasync def g(): return 1\n"
FLOW = "@workflow\nasync def w(): return [await g(), helper(), time.time() == time.time()]\n"
HELPER = "def helper(): return 'old'\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_d022_ids_name_no_file_and_a_warning_says_so(shell: str) -> None:
    span = "@serializable\nclass Span: ...\n"
    out, err = session(
        BEGIN + STEP,
        HELPER + FLOW,
        span,
        "from tenuto.codec import classes\nprint(g.id, w.id, *classes._by_id)",
        shell=shell,
    )
    assert out == ["step//<interactive>//g workflow//<interactive>//w class//<interactive>//Span"]
    assert err.count("DIR211") == 3


@pytest.mark.parametrize("shell", SHELLS)
def test_d022_a_cell_that_is_run_again_counts_in_the_workflows_of_other_cells(shell: str) -> None:
    out, _ = session(
        BEGIN + STEP,
        HELPER,
        FLOW,
        "show(w)",
        STEP.replace("1", "100"),
        "show(w)",
        HELPER.replace("old", "new"),
        "show(w)",
        "@workflow\nasync def w(): return 'another'\n",
        "show(w)",
        "show('w')",
        shell=shell,
    )
    assert out == [
        "RESULT [1, 'old', True]",
        "RESULT [100, 'old', True]",
        "RESULT [100, 'new', True]",
        "RESULT another",
        "RESULT another",
    ]


def test_a_workflow_that_was_typed_in_sees_run_time_and_no_environment() -> None:
    out, _ = session(
        BEGIN + "import os\n",
        "@workflow\nasync def w():\n    await sleep('1ms')\n    return time.time() == now().timestamp()\n",
        "show(w)",
        "@workflow\nasync def w(): return os.environ.get('HOME')\n",
        "show(w)",
    )
    assert out[0] == "RESULT True"
    assert out[1].startswith("ERROR RunFailedError")


def test_of_one_name_the_last_definition_wins_whatever_it_is() -> None:
    out, err = session(
        BEGIN + "@step(name='pay')\nasync def pay(): return 1\n",
        "@step(name='pay')\nasync def pay_again(): return 2\n",
        "@workflow\nasync def w(): return await pay_again()\n",
        "show(w)",
        "@workflow(name='pay')\nasync def pay(): return 3\n",
        "show('pay')",
    )
    assert out == ["RESULT 2", "RESULT 3"]
    assert "DuplicateIdError" not in err


def test_a_definition_of_a_file_is_not_replaced_by_one_typed_in(tmp_path: object) -> None:
    out, _ = session(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom pathlib import Path\n"
        f"Path({str(tmp_path)!r}, 'paying.py').write_text("
        "\"from tenuto import step\\n@step(name='pay')\\nasync def pay(): return 1\\n\")\n",
        "import paying\n" + BEGIN,
        "try:\n    @step(name='pay')\n    async def pay(): return 2\n"
        "except Exception as error:\n    print(type(error).__name__)\n",
    )
    assert out == ["DuplicateIdError"]


@pytest.mark.parametrize(("shell", "kept"), [*((shell, True) for shell in SHELLS), ("<stdin>", False)])
def test_a_directive_that_was_typed_in_is_not_compiled_and_says_what_to_write(shell: str, kept: bool) -> None:
    cells = [f"async def {word}_(): 'use {word}'; return 1\n" for word in ("step", "workflow")]
    out, _ = session(BEGIN, *cells, "show(step_)", "show(workflow_)", shell=shell, kept=kept)
    for line, word in zip(out, ("step", "workflow"), strict=True):
        assert line.startswith("ERROR NotCompiledError")
        assert "typed into a notebook" in line
        assert f"mark it with @{word}" in line
        assert "tenuto run" not in line


def test_a_directive_of_a_whole_cell_and_one_behind_a_docstring_are_seen() -> None:
    out, _ = session(
        "'use workflow'\nfrom tenuto import *\nasync def d(): return 1\n",
        "async def e():\n    'Doc.'\n    'use workflow'\n",
        "show(d)",
        "show(e)",
        "async def f(): return 1\n",
        "show(f)",
    )
    assert [line.split()[1] for line in out] == ["NotCompiledError", "NotCompiledError", "TypeError"]


def test_a_foreign_class_that_is_registered_in_a_cell_is_interactive() -> None:
    out, err = session(
        BEGIN,
        "from decimal import Context\nserializable(Context, serialize=str, deserialize=Context)\n",
        "from tenuto.codec import classes\nprint(*classes._by_id)",
    )
    assert out == ["class//<interactive>//Context"]
    assert "DIR211" in err


def test_what_is_typed_after_a_script_is_interactive_and_the_script_is_not(tmp_path: object) -> None:
    from pathlib import Path

    script = Path(str(tmp_path), "script.py")
    script.write_text("from tenuto import step\n@step\nasync def f(): return 1\nprint('ID', f.id)\n")
    lines = "@step\nasync def g(): return 1\n\nprint('ID', g.id)\n"
    done = subprocess.run(
        [sys.executable, "-i", "-q", str(script)], input=lines, capture_output=True, text=True, check=True
    )
    assert [line for line in done.stdout.splitlines() if "ID" in line] == [
        "ID step//script.py//f",
        "ID step//<interactive>//g",
    ]
