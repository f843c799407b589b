"""What names mean over several files, what is allowed where, and what deserves a warning."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.twf.ast import Activity, MessageTarget, Workflow
from tenuto.twf.checks import Bound
from tenuto.twf.occurrences import occurrences
from tenuto.twf.program import Program, decode, load
from tenuto.twf.run import Bindings
from tenuto.twf.source import Source


def program(*texts: str, bound: Bound | None = None) -> Program:
    return load([Source(f"{chr(ord('a') + number)}.twf", text) for number, text in enumerate(texts)], bound=bound)


def codes(*texts: str, bound: Bound | None = None) -> list[tuple[str, int, str]]:
    return [(found.path, found.span.line, found.code) for found in program(*texts, bound=bound).diagnostics]


# --- across files


def test_names_are_found_in_any_file_in_any_order() -> None:
    assert (
        codes(
            "workflow W():\n    activity A()\n    workflow V()\n", "activity A():\n    f()\nworkflow V():\n    close\n"
        )
        == []
    )


def test_a_target_is_linked_to_the_definition_it_means() -> None:
    found = program("workflow W():\n    activity A()\n", "activity A():\n    f()\n")
    (place,) = found.resolution.targets.values()
    assert (place.file.path, place.ident.name) == ("b.twf", "A")
    assert isinstance(place.node, Activity)


def test_of_duplicates_the_first_counts() -> None:
    found = program("workflow W():\n    activity A(1)\n\nactivity A(x: int):\n    f(x)\n", "activity A():\n    f()\n")
    assert [one.code for one in found.diagnostics] == ["TWF311"]


def test_workflows_and_activities_are_two_namespaces() -> None:
    assert codes("workflow X():\n    activity X()\n", "activity X():\n    f()\n") == []


def test_a_remote_workflow_is_never_undefined_but_linked_if_it_is_here() -> None:
    found = program(
        'workflow W():\n    nexus "n" workflow V()\n    nexus "n" workflow U(1)\n', "workflow V():\n    close\n"
    )
    assert found.diagnostics == ()
    assert [place.ident.name for place in found.resolution.targets.values()] == ["V"]


def test_mixed_indentation_in_one_file_silences_undefined_names_everywhere() -> None:
    mixed = "workflow V():\n    x = 1\n\tclose\n"
    assert codes("workflow W():\n    workflow V()\n", mixed) == [("b.twf", 3, "TWF101")]


def test_a_file_that_is_not_text_has_one_diagnostic() -> None:
    bad = decode("b.twf", b"workflow W():\n    x = \xff\n")
    found = load([Source("a.twf", "workflow V():\n    close\n"), bad]).diagnostics
    assert [(one.path, one.span[:2], one.code) for one in found] == [("b.twf", (2, 9), "TWF100")]


def test_names_are_resolved_in_a_definition_with_syntax_errors() -> None:
    assert codes("workflow W():\n    x = = 1\n    activity Nope()\n    heartbeat()\n") == [
        ("a.twf", 2, "TWF120"),
        ("a.twf", 3, "TWF301"),
        ("a.twf", 4, "TWF205"),
    ]


def test_warnings_wait_until_a_definition_has_no_error() -> None:
    broken = "workflow W():\n    x = = 1\n    y = nope\n\nworkflow V():\n    y = nope\n"
    assert codes(broken) == [("a.twf", 2, "TWF120"), ("a.twf", 6, "TWF403")]


# --- handles and messages


def test_a_handle_comes_from_spawn_or_from_a_loop() -> None:
    text = """\
workflow W(hs: list):
    spawn workflow V() -> h
    await h
    for (one_h in hs):
        await one_h
    await one:
        h:
            close
        other:
            close

workflow V():
    close
"""
    assert codes(text) == [("a.twf", 9, "TWF305")]


def test_a_message_is_looked_up_in_its_own_workflow_only() -> None:
    text = "workflow W():\n    signal S():\n        x = 1\n    await signal S\n\nworkflow V():\n    await signal S\n"
    found = program(text)
    assert [(one.span.line, one.code) for one in found.diagnostics] == [(7, "TWF303")]
    assert [type(target) for target in found.resolution.targets] == [MessageTarget]


def test_fewer_names_than_parameters_may_be_bound() -> None:
    assert (
        codes(
            "workflow W():\n    signal S(a: int, b: int):\n        x = a + b\n    await signal S -> (p)\n    close p\n"
        )
        == []
    )


# --- variables


def test_one_scope_reaches_over_body_and_handlers() -> None:
    text = """\
workflow W(p: int):
    signal S(a: int):
        seen = a + p
        for (item in []):
            last = item
    query Q() -> (int):
        local = seen + total
        return local + last
    total = 0
    close item
"""
    assert codes(text) == [("a.twf", 10, "TWF403")]  # a loop variable of a handler is local


def test_handler_parameters_are_local() -> None:
    assert codes("workflow W():\n    signal S(a: int):\n        x = a\n    close a\n") == [("a.twf", 4, "TWF403")]


def test_a_query_may_have_names_of_its_own_but_not_change_others() -> None:
    text = (
        "workflow W(n: int):\n    query Q(k: int) -> (int):\n        k = 1\n"
        "        t = 2\n        n = 3\n        return k + t\n    close\n"
    )
    assert codes(text) == [("a.twf", 5, "TWF208")]


def test_a_name_is_reported_once_per_definition() -> None:
    assert codes("workflow W():\n    x = nope + nope\n    close nope\n") == [("a.twf", 2, "TWF403")]


def test_reading_in_a_loop_that_assigns_is_no_early_read() -> None:
    assert codes("workflow W():\n    for (true):\n        if (x == null):\n            close\n        x = 1\n") == []


def test_a_name_assigned_in_a_handler_is_null_before_and_no_warning() -> None:
    assert codes("workflow W():\n    signal S():\n        x = 1\n    y = x\n    x = 2\n    close y\n") == []


def test_names_in_option_strings_are_read() -> None:
    text = (
        'workflow W(t: T):\n    activity A()\n        options(taskQueue: "q-{t.name}-{u}")\n\nactivity A():\n    f()\n'
    )
    assert codes(text) == [("a.twf", 3, "TWF403")]


def test_a_host_function_is_no_variable_and_a_variable_has_methods() -> None:
    text = "workflow W():\n    xs = []\n    xs.append(1)\n    db.put(xs)\n    close len(xs)\n"
    assert codes(text) == [("a.twf", 4, "TWF417")]


# --- warnings


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    if (n == 0):\n        close\n    workflow W(n - 1)\n", []),
        ("    spawn workflow W(1) -> h\n    await h\n", []),
        ("    await workflow W(n)\n", [(2, "TWF418")]),
        ("    x = n\n    workflow W(x)\n", [(3, "TWF418")]),
        ('    nexus "n" workflow W(n)\n', []),
    ],
)
def test_calling_itself_is_a_warning_only_without_a_way_out(body: str, expected: list[tuple[int, str]]) -> None:
    assert [(line, code) for _, line, code in codes(f"workflow W(n: int):\n{body}")] == expected


@pytest.mark.parametrize(
    ("body", "idle"),
    [
        ("x = 1", True),
        ("f()", True),
        ("for (x in []):\n            break", True),
        ("break", False),
        ("await timer(1s)", False),
        ("if (true):\n            activity A()", False),
        ("return", False),
    ],
)
def test_an_endless_loop_must_wait_or_leave(body: str, idle: bool) -> None:
    text = f"workflow W():\n    for:\n        {body}\n\nactivity A():\n    f()\n"
    assert ("a.twf", 2, "TWF415") in codes(text) if idle else ("a.twf", 2, "TWF415") not in codes(text)


def test_option_keys_ignore_case_and_underscores() -> None:
    text = (
        "workflow W():\n    activity A()\n"
        "        options(start_to_close_timeout: 5s, RetryPolicy: {max_attempts: 3})\n\n"
        "activity A():\n    f()\n"
    )
    assert codes(text) == []


def test_the_same_literal_is_compared_by_value_and_kind() -> None:
    cases = "".join(
        f"        case {value}:\n            x = 1\n" for value in ("60s", "1m", "true", "1", '"1"', "-1", "null", "y")
    )
    assert codes(f"workflow W(y: int):\n    switch (y):\n{cases}    close\n") == [("a.twf", 5, "TWF410")]


# --- bindings


def test_bindings_decide_about_bodies_functions_and_workflows() -> None:
    text = """\
workflow W():
    x = rates.of("EUR")
    workflow Elsewhere()
    activity Empty()
    close x

activity Empty():
    # bound

activity Full():
    mail.send(1)
"""
    bound = Bound(frozenset({"Empty"}), {"rates.of": True, "mail.send": False}, frozenset({"Elsewhere"}))
    assert codes(text, bound=bound) == []
    assert codes(text, bound=Bound()) == [
        ("a.twf", 2, "TWF331"),
        ("a.twf", 3, "TWF302"),
        ("a.twf", 7, "TWF330"),
        ("a.twf", 11, "TWF331"),
    ]


def test_a_bound_function_that_is_not_pure_is_still_a_warning_in_a_workflow() -> None:
    bound = Bound(functions={"notify": False})
    assert codes("workflow W():\n    notify(1)\n    close\n", bound=bound) == [("a.twf", 2, "TWF417")]


# --- occurrences


def test_every_occurrence_of_a_name_leads_to_one_meaning() -> None:
    text = """\
workflow W(n: int):
    signal S(n: int):
        total = n
    total = n
    await signal S -> (k)
    close total + k
"""
    found = occurrences(program(text))
    names = [(text[one.start : one.end], one.role) for one in found.by_path["a.twf"]]
    assert names == [
        ("W", "definition"),
        ("n", "definition"),
        ("S", "definition"),
        ("n", "definition"),
        ("total", "write"),
        ("n", "read"),
        ("total", "write"),
        ("n", "read"),
        ("S", "read"),
        ("k", "write"),
        ("total", "read"),
        ("k", "read"),
    ]
    outer, inner = (
        one.meaning for one in found.by_path["a.twf"] if one.role == "definition" and one.meaning.name == "n"
    )
    assert isinstance(outer.owner, Workflow)
    assert [one.start for one in found.of(inner)] != [one.start for one in found.of(outer)]
    assert len(found.of(outer)) == len(found.of(inner)) == 2


ORDERS = """workflow W():
    activity Charge(1, 2) -> r
    x = rate("no", currency: "NOK")
    close r

activity Charge(card: string, cents: int) -> (int):
    return 1
"""


def bound_to(charge: Any, rate: Any = lambda country, currency=None: 1, name: str = "Charge") -> Bound:
    bindings = Bindings()
    bindings.activity(name)(charge)
    bindings.function("rate", pure=True)(rate)
    return bindings.bound()


@pytest.mark.parametrize(
    "charge",
    [
        lambda card, cents: 1,
        lambda *args: 1,
        lambda card, cents, more=None: 1,
        print,
    ],
)
def test_a_function_that_takes_the_parameters_of_its_activity_fits(charge: Any) -> None:
    assert codes(ORDERS, bound=bound_to(charge)) == []


@pytest.mark.parametrize("charge", [lambda card: 1, lambda card, cents, more: 1, lambda card, *, cents: 1, lambda: 1])
def test_a_function_that_does_not_is_reported_at_the_activity(charge: Any) -> None:
    assert codes(ORDERS, bound=bound_to(charge)) == [("a.twf", 6, "TWF330")]


@pytest.mark.parametrize("rate", [lambda: 1, lambda country: 1, lambda country, rate: 1, lambda a, b, c: 1])
def test_a_call_that_does_not_fit_its_host_function_is_reported_at_the_call(rate: Any) -> None:
    assert codes(ORDERS, bound=bound_to(lambda card, cents: 1, rate)) == [("a.twf", 3, "TWF331")]


def test_a_binding_under_a_misspelled_name_is_reported_at_the_activity_that_was_meant() -> None:
    (found,) = program(ORDERS, bound=bound_to(lambda card, cents: 1, name="Chrage")).diagnostics
    assert (found.code, found.span.line) == ("TWF330", 6)
    assert "Chrage" in found.message
    assert codes(ORDERS, bound=bound_to(lambda card, cents: 1, name="Ship")) == []  # of another program, perhaps
