"""The formatter, rule by rule, and its two promises: a second pass changes nothing, and no pass changes the meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.twf.format import format_source
from tenuto.twf.parser import parse
from tenuto.twf.source import Source

NAMES = sorted(path.name for path in (Path(__file__).parent / "cases").glob("*.twf"))


def fmt(text: str) -> str:
    formatted = format_source(Source("a.twf", text))
    assert formatted is not None
    return formatted


def comments(text: str) -> Counter[str]:
    return Counter(comment.text.rstrip() for comment in parse(Source("a.twf", text)).file.comments)


def keeps_its_promises(text: str, tree: Callable[[str], Any]) -> None:
    once = fmt(text)
    assert fmt(once) == once
    assert tree(once) == tree(text)
    assert comments(once) == comments(text)
    assert all(line == line.rstrip() for line in once.split("\n"))
    assert not once or (once.endswith("\n") and not once.endswith("\n\n"))


@pytest.mark.parametrize("name", NAMES)
def test_a_case_keeps_its_meaning_and_settles_at_once(
    name: str, cases: dict[str, str], expectations: dict[str, Any], tree: Callable[[str], Any]
) -> None:
    if any(one["code"] < "TWF200" for one in expectations[name]["diagnostics"]):
        assert format_source(Source(name, cases[name])) is None
    else:
        keeps_its_promises(cases[name], tree)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_generated_program_keeps_its_meaning_and_settles_at_once(
    seed: int, make_program: Callable[[Random], str], tree: Callable[[str], Any]
) -> None:
    keeps_its_promises(make_program(Random(seed)), tree)


RULES = {
    "F1 four spaces, no trailing blanks, one final newline": (
        "workflow W():\n\tif (true):\n\t\tx = 1   \n\tclose",
        "workflow W():\n    if (true):\n        x = 1\n    close\n",
    ),
    "F2 one blank line between definitions and after handlers": (
        """\
        workflow W():

            signal S():
                x = 1
            signal T():
                x = 2


            y = 1



            close
        activity A():
            f()
        """,
        """\
        workflow W():
            signal S():
                x = 1

            signal T():
                x = 2

            y = 1

            close

        activity A():
            f()
        """,
    ),
    "F2 a comment above a definition stays with it": (
        "workflow W():\n    close\n# about A\nactivity A():\n    f()\n",
        "workflow W():\n    close\n\n# about A\nactivity A():\n    f()\n",
    ),
    "F2 no blank line before else": (
        "workflow W():\n    if (true):\n        x = 1\n\n    else:\n        x = 2\n\n    close\n",
        "workflow W():\n    if (true):\n        x = 1\n    else:\n        x = 2\n\n    close\n",
    ),
    "F3 blanks around operators and none inside brackets": (
        (
            "workflow W( a :int,b:int )->( int ):\n    x=a+b*-a%2\n    w = f( x ) [ 0 ]\n"
            "    y = R {a:1}\n    z = not(a)\n    close [1,2] , - 1\n"
        ),
        (
            "workflow W(a: int, b: int) -> (int):\n    x = a + b * -a % 2\n    w = f(x)[0]\n"
            "    y = R{a: 1}\n    z = not (a)\n    close [1, 2], -1\n"
        ),
    ),
    "F3 words that are no functions keep their distance": (
        (
            "workflow W(x: int):\n    if(x):\n        return(x)\n    for(i in(x)):\n"
            "        close failed(x)\n    close failed.a\n"
        ),
        (
            "workflow W(x: int):\n    if (x):\n        return (x)\n    for (i in (x)):\n"
            "        close failed (x)\n    close failed.a\n"
        ),
    ),
    "F4 what fits stays on one line": (
        "workflow W():\n    f(\n        1,\n        2)\n    close\n",
        "workflow W():\n    f(1, 2)\n    close\n",
    ),
    "F4 a trailing comma asks for one item per line": (
        "workflow W():\n    f(1, [2, 3],)\n    close\n",
        "workflow W():\n    f(\n        1,\n        [2, 3],\n    )\n    close\n",
    ),
    "F4 what is too long breaks at the outermost bracket": (
        (
            "workflow W():\n"
            "    activity Send(first_argument_with_a_name, second_argument_with_a_name, R{field: 1, other: 2}) -> r\n"
            "    close\n"
        ),
        """\
        workflow W():
            activity Send(
                first_argument_with_a_name,
                second_argument_with_a_name,
                R{field: 1, other: 2},
            ) -> r
            close
        """,
    ),
    "F4 names and return types never break": (
        (
            "workflow W() -> (AVeryLongTypeNameNumberOne, AVeryLongTypeNameNumberTwo, AVeryLongTypeNameNumberThree):\n"
            "    close\n"
        ),
        (
            "workflow W() -> (AVeryLongTypeNameNumberOne, AVeryLongTypeNameNumberTwo, AVeryLongTypeNameNumberThree):\n"
            "    close\n"
        ),
    ),
    "F4 a comment keeps its item": (
        "workflow W():\n    f(1, # one\n    # two\n    2)\n    close\n",
        "workflow W():\n    f(\n        1,  # one\n        # two\n        2,\n    )\n    close\n",
    ),
    "F5 trailing comments stand two blanks away": (
        "workflow W():# a\n    close # b\n",
        "workflow W():  # a\n    close  # b\n",
    ),
    "F5 a deep comment ends the block it is indented into": (
        """\
        workflow W():
            if (true):
                x = 1
                # of the if
            # of the body
            y = 2
              # near y
        # of the file
        """,
        """\
        workflow W():
            if (true):
                x = 1
                # of the if
            # of the body
            y = 2
            # near y
        # of the file
        """,
    ),
    "F5 a block of comments keeps its block": (
        "activity A():\n  # bound elsewhere\nactivity B():\n  f()\n",
        "activity A():\n    # bound elsewhere\n\nactivity B():\n    f()\n",
    ),
    "F6 what a person chose stays": (
        (
            "workflow W(a: map[ string ]int):\n    x = 1.50\n    y = ((x))\n"
            '    await timer(060s)\n    r = activity A("a  b")\n    close\n'
        ),
        (
            "workflow W(a: map[ string ]int):\n    x = 1.50\n    y = ((x))\n"
            '    await timer(060s)\n    r = activity A("a  b")\n    close\n'
        ),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds(rule: str) -> None:
    before, after = RULES[rule]
    assert fmt(dedent(before)) == dedent(after)


def test_a_file_with_a_syntax_error_is_left_alone() -> None:
    assert format_source(Source("a.twf", "workflow W(:\n  close\n")) is None


def test_a_file_with_undefined_names_is_formatted() -> None:
    assert fmt("workflow W():\n  activity  Nope()\n") == "workflow W():\n    activity Nope()\n"


def test_a_comment_in_a_bracket_that_cannot_break_moves_above_its_line() -> None:
    assert fmt("workflow W():\n    x = (1 # why\n    )\n    close x\n") == (
        "workflow W():\n    # why\n    x = (1)\n    close x\n"
    )
