"""Every mechanical repair, carried out: the diagnostic is gone and the text is what a person would have written."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tenuto.twf.fixes import Fix, fixes_for, refactorings_at
from tenuto.twf.program import load
from tenuto.twf.source import Source

TAIL = "\nactivity A(x: int) -> (int):\n    return x\n\nworkflow V():\n    close\n"


def apply(text: str, fix: Fix) -> str:
    for edit in sorted(fix.edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def repaired(text: str, code: str, title: str) -> str:
    program = load([Source("a.twf", text)])
    found = next(one for one in program.diagnostics if one.code == code)
    fixes = {fix.title: fix for fix in fixes_for(program, program.files[0], found)}
    assert title in fixes, list(fixes)
    changed = apply(text, fixes[title])
    assert code not in {one.code for one in load([Source("a.twf", changed)]).diagnostics}, changed
    return changed


REPAIRS = {
    "TWF111": ("await timer(5)", "Make it minutes", "await timer(5m)"),
    "TWF120": ("actvity A(1) -> r", 'Change to "activity"', "activity A(1) -> r"),
    "TWF121": ("if (true)\n    x = 1", "Add ':'", "if (true):\n    x = 1"),
    "TWF125": ("if true or false:  # c\n    x = 1", "Put it in parentheses", "if (true or false):  # c\n    x = 1"),
    "TWF128": (
        "if (true):\n    x = 1\nelse if (false):\n    x = 2\n\n    y = 3\nelse:\n    x = 4\nz = 5",
        "Nest the if in else:",
        (
            "if (true):\n    x = 1\nelse:\n    if (false):\n        x = 2\n\n        y = 3\n"
            "    else:\n        x = 4\nz = 5"
        ),
    ),
    "TWF134": (
        "activity A(1)\n    options(priority: 1)\n    options(priority: 2)",
        "Remove the line",
        "activity A(1)\n    options(priority: 1)",
    ),
    "TWF135": (
        "r = activity A(1)\n    options(priority: 1)",
        "Use the arrow form",
        "activity A(1) -> r\n    options(priority: 1)",
    ),
    "TWF136": ("r = await activity A(1)  # c", "Use the arrow form", "await activity A(1) -> r  # c"),
    "TWF137": ("spawn activity A(1) -> r", "Drop 'spawn'", "activity A(1) -> r"),
    "TWF138": ("spawn detach workflow V() -> h", "Drop 'detach'", "spawn workflow V() -> h"),
    "TWF139": ("nexus bank workflow V()", "Make it a string", 'nexus "bank" workflow V()'),
    "TWF140": ("detach workflow V() -> h", "Use spawn", "spawn workflow V() -> h"),
    "TWF145": ("timer(5m)", "Await it", "await timer(5m)"),
    "TWF148": ("x = true && true", "Write 'and'", "x = true and true"),
    "TWF301": ("activity B(1)", "Create activity B", "activity B(1)"),
    "TWF302": ("workflow B(1)", "Create workflow B", "workflow B(1)"),
    "TWF303": ("await signal S -> (a)", "Create signal S", "await signal S -> (a)"),
    "TWF304": ("await update U", "Create update U", "await update U"),
    "TWF403": ("total = 1\nx = totl", 'Change to "total"', "total = 1\nx = total"),
    "TWF407": (
        "activity A(1)\n    options(prioritie: 1)",
        'Change to "priority"',
        "activity A(1)\n    options(priority: 1)",
    ),
    "TWF408": ("activity A(1)\n    options()", "Remove the line", "activity A(1)"),
    "TWF413": ("await spawn workflow V()", "Drop 'spawn'", "await workflow V()"),
    "TWF414": ("spawn workflow V()", "Bind the handle", "spawn workflow V() -> handle"),
}


def in_body(statements: str) -> str:
    return "workflow W():\n" + "".join(f"    {line}\n" if line else "\n" for line in statements.split("\n")) + TAIL


@pytest.mark.parametrize("code", REPAIRS)
def test_a_repair_makes_its_diagnostic_go_away(code: str) -> None:
    before, title, after = REPAIRS[code]
    changed = repaired(in_body(before), code, title)
    expected = "".join(f"    {line}\n" if line else "\n" for line in after.split("\n"))
    assert expected in changed


def test_types_and_results_are_repaired_in_headers() -> None:
    assert repaired("workflow W() -> int:\n    close 1\n", "TWF124", "Put the type in parentheses").startswith(
        "workflow W() -> (int):\n"
    )
    assert repaired("workflow W(a):\n    close a\n", "TWF127", "Add a type").startswith("workflow W(a: T):\n")
    text = "workflow W():\n    query Q():\n        return 1\n    close\n"
    assert "    query Q() -> (Result):\n" in repaired(text, "TWF129", "Add a return type")


def test_a_missing_activity_is_created_with_the_arguments_of_the_call() -> None:
    text = "workflow W(order: T):\n    activity Send(order, order.id, 3) -> r\n    close r\n"
    changed = repaired(text, "TWF301", "Create activity Send")
    assert changed.endswith(
        "\nactivity Send(order: any, id: any, arg3: any) -> (any):\n    # bound to a Python function\n"
    )


def test_a_missing_signal_is_created_after_the_other_handlers() -> None:
    text = dedent("""\
        workflow W():
            signal S():
                x = 1
            await signal S
            await signal Stop -> (why)
            close why
        """)
    changed = repaired(text, "TWF303", "Create signal Stop")
    assert "        x = 1\n    signal Stop(why: any):\n" in changed


def test_the_assignment_form_is_converted_on_request() -> None:
    text = in_body("r = activity A(1)")
    program = load([Source("a.twf", text)])
    at = text.index("activity A(1)")
    (fix,) = refactorings_at(program.files[0], at, at)
    assert "    activity A(1) -> r\n" in apply(text, fix)
