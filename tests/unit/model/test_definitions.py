"""Workflow and step objects, seen from outside a run."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest

from tenuto import Bound, Retry, Step, Workflow, join, race, step, workflow
from tenuto.codec.values import dump, load
from tenuto.errors import (
    AmbiguousNameError,
    DefinitionNotFoundError,
    DirectiveError,
    DuplicateIdError,
    InvalidNameError,
    NotInWorkflowError,
)
from tenuto.model.registry import default

PATH = "tests/unit/model/test_definitions.py"


@step
async def charge(card: str, cents: int = 100) -> str:
    """Takes money."""
    return f"{card}:{cents}"


@step(max_attempts=5, timeout="10s", queue="heavy", priority=3)
def add(a: int, b: int) -> int:
    return a + b


def _twice(fn: Any) -> Any:
    @wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return 2 * await fn(*args, **kwargs)

    return wrapper


@step
@_twice
async def doubled(n: int, *, plus: int = 0) -> int:
    return n + plus


class Mailer:
    @staticmethod
    @step
    async def send(to: str) -> str:
        return f"sent {to}"

    @classmethod
    @step
    async def digest(cls, day: str) -> str:
        return f"{cls.__name__} {day}"


@workflow
async def checkout(card: str, cents: int = 1, *, note: str = "") -> str:
    """Sells something."""
    return await charge(card, cents) + note


@step(name="billing.charge")
async def renamed(n: int) -> int:
    return n


# --- what they look like


def test_a_step_looks_like_its_function() -> None:
    assert isinstance(charge, Step)
    looks: Any = charge
    assert (looks.__name__, looks.__qualname__, looks.__doc__) == ("charge", "charge", "Takes money.")
    assert looks.__module__ == __name__
    assert str(inspect.signature(looks)) == "(card: 'str', cents: 'int' = 100) -> 'str'"
    assert looks.fn.__code__.co_name == "charge"


def test_steps_and_workflows_count_as_coroutine_functions_also_when_they_are_made_of_a_def() -> None:
    for made in (charge, add, checkout, doubled):
        assert inspect.iscoroutinefunction(made)
        if sys.version_info < (3, 14):  # later ones leave the question to inspect
            assert asyncio.iscoroutinefunction(made)


def test_ids_come_from_the_place_and_names_from_the_function() -> None:
    assert (charge.id, charge.name) == (f"step//{PATH}//charge", "charge")
    assert (checkout.id, checkout.name) == (f"workflow//{PATH}//checkout", "checkout")
    assert Mailer.send.id == f"step//{PATH}//Mailer.send"


def test_a_name_replaces_the_id() -> None:
    assert (renamed.id, renamed.name) == ("billing.charge", "billing.charge")


def test_definitions_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(charge)) is charge  # noqa: S301  # our own
    assert pickle.loads(pickle.dumps(checkout)) is checkout  # noqa: S301


def test_definitions_are_values() -> None:
    assert load(dump([charge, checkout])) == [charge, checkout]


def test_a_step_with_captured_values_takes_them_along() -> None:
    async def body(text: str) -> None: ...

    default.register(Step(body, id="step//m.py//pack/stored", name="stored"))
    made = Step(body, id="step//m.py//pack/stored", name="stored", closure=lambda: {"box": "M"})
    again = load(dump(made))
    assert load(again.call(("a",), {}).input) == [[], {"text": "a"}, {"box": "M"}]
    default.forget(made.id)


def test_attempts_of_a_remote_step_run_what_is_registered_under_its_id() -> None:
    async def stub(n: int) -> None: ...

    async def body(n: int) -> int:
        return n

    remote = Step(stub, id="step//m.py//remote", name="remote", remote=True)
    assert remote.call((1,), {}).prepare()[0][0] is stub
    default.register(Step(body, id="step//m.py//remote", name="remote"))
    assert remote.call((1,), {}).prepare()[0][0] is body
    default.forget(remote.id)


# --- plain calls


async def test_a_step_called_outside_a_run_is_a_plain_call() -> None:
    assert await charge("tok", 5) == "tok:5"
    assert await charge(card="tok") == "tok:100"


async def test_a_def_step_is_awaitable_too() -> None:
    assert await add(1, 2) == 3


async def test_steps_work_as_static_and_class_methods() -> None:
    assert await Mailer.send("you") == "sent you"
    assert await Mailer().send("you") == "sent you"
    assert await Mailer.digest("monday") == "Mailer monday"


async def test_a_decorator_below_step_wraps_the_implementation() -> None:
    assert await doubled(2, plus=1) == 6


async def test_a_named_function_called_outside_a_run_is_a_plain_call() -> None:
    assert await step("sum", sum, [1, 2]) == 3


def test_a_wrong_call_is_pythons_type_error_at_the_call() -> None:
    with pytest.raises(TypeError):
        charge()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        checkout.bind()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_calling_a_workflow_names_the_ways_to_start_it() -> None:
    with pytest.raises(NotInWorkflowError, match=r"app\.start.*\.fn"):
        checkout("tok")


def test_binding_keeps_keyword_arguments() -> None:
    bound = checkout.bind("tok", note="x")
    assert isinstance(bound, Bound)
    assert (bound.definition, bound.args, bound.kwargs) == (checkout, ("tok",), {"note": "x"})


# --- what is recorded of a call


def test_equal_calls_are_recorded_alike() -> None:
    records = {
        charge.call(args, kwargs).input
        for args, kwargs in [(("t", 2), {}), (("t",), {"cents": 2}), ((), {"cents": 2, "card": "t"})]
    }
    assert [load(record) for record in records] == [[[], {"card": "t", "cents": 2}]]


def test_defaults_are_left_to_the_implementation() -> None:
    assert load(charge.call(("t",), {}).input) == [[], {"card": "t"}]


def test_arguments_without_a_name_stay_positional() -> None:
    @step
    async def book(seat: int, /, row: int, *extras: int, aisle: bool = False, **meta: int) -> None: ...

    assert load(book.call((1, 2), {}).input) == load(book.call((1,), {"row": 2}).input) == [[1], {"row": 2}]
    assert load(book.call((1, 2, 3), {"aisle": True, "x": 4}).input) == [[1, 2, 3], {"aisle": True, "x": 4}]


def test_a_wrapped_step_is_recorded_in_a_form_the_wrapper_takes() -> None:
    assert load(doubled.call((1,), {}).input) == [[1], {}]


def test_each_attempt_gets_a_copy_of_the_arguments() -> None:
    @step
    async def work(items: list[int]) -> None: ...

    items = [1]
    call = work.call((items,), {})
    items.append(2)
    first, second = call.prepare(), call.prepare()
    assert first[2] == second[2] == {"items": [1]}
    assert first[2]["items"] is not second[2]["items"]


def test_captured_values_travel_with_the_call() -> None:
    async def body(text: str, size: int = 3) -> None: ...

    made = Step(body, id="step//m.py//pack/label", name="label", closure=lambda: {"box": "M"})
    assert load(made.call(("a",), {}).input) == [[], {"text": "a", "size": 3}, {"box": "M"}]


# --- options


def test_options_make_another_step_of_the_same_function() -> None:
    patient = add.options(max_attempts=9, name="slow_add")
    assert (patient.id, patient.name, patient.fn) == (add.id, "slow_add", add.fn)
    assert (patient.spec.max_attempts, patient.spec.timeout_ms, patient.spec.queue) == (9, 10_000, "heavy")
    assert add.spec.max_attempts == 5


def test_retry_says_the_four_in_one() -> None:
    @step(retry=Retry(7, "1s", "1m", (KeyError, "Timeout")))
    async def work() -> None: ...

    spec = work.spec
    assert (spec.max_attempts, spec.backoff_ms, spec.backoff_max_ms) == (7, 1000, 60_000)
    assert spec.no_retry == (KeyError, "Timeout")
    assert work.options(max_attempts=2).spec.backoff_ms == 100
    assert add.options(retry=Retry(4)).spec.max_attempts == 4


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"retry": Retry(), "backoff": 1},
        {"ephemeral": True, "max_attempts": 1},
        {"ephemeral": True, "queue": "q"},
        {"ephemeral": True, "rollback": print},
        {"timeout": 0},
        {"timeout": "soon"},
        {"name": ""},
        {"queue": ""},
    ],
)
def test_options_that_cannot_be_are_value_errors_at_once(options: Any) -> None:
    async def work() -> None: ...

    with pytest.raises(ValueError):  # noqa: PT011  # any text of it
        step(**options)(work)


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 3},
        {"max_attempts": True},
        {"max_attempts": 1.5},
        {"no_retry": ValueError},
        {"no_retry": (int,)},
        {"rollback": 5},
        {"retry": 3},
        {"ephemeral": 1},
        {"priority": "high"},
    ],
)
def test_options_of_the_wrong_type_are_type_errors_at_once(options: Any) -> None:
    with pytest.raises(TypeError):
        step(**options)


def test_a_named_function_takes_no_queue() -> None:
    with pytest.raises(TypeError, match="queue"):
        step("x", print, queue="q")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportUnknownMemberType]


def test_a_rollback_handler_is_found_again_by_a_reference() -> None:
    @step(rollback=charge)
    async def undone_by_a_step() -> str: ...

    @step(rollback=inspect.getdoc)
    async def undone_by_a_function() -> str: ...

    @step(rollback=lambda result: None)
    async def undone_by_a_closure() -> str: ...

    assert undone_by_a_step.spec.undo == charge.id
    assert undone_by_a_function.spec.undo == "inspect:getdoc"
    assert undone_by_a_closure.spec.undo == ""


# --- what cannot be marked


def test_a_workflow_must_be_async() -> None:
    def work() -> None: ...

    with pytest.raises(DirectiveError) as raised:
        workflow(work)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert raised.value.code == "DIR101"


def test_instance_methods_generators_and_second_marks_are_refused() -> None:
    async def method(self: object) -> None: ...

    async def numbers() -> Any:
        yield 1

    for code, wrong in [("DIR102", method), ("DIR110", numbers), ("DIR121", charge), ("DIR102", staticmethod(len))]:
        with pytest.raises(DirectiveError) as raised:
            step(wrong)
        assert raised.value.code == code


def test_a_nested_step_may_not_name_a_queue() -> None:
    async def work() -> None: ...

    with pytest.raises(ValueError, match="queue"):
        step(queue="q")(work)


def test_names_are_texts_of_one_to_255_bytes() -> None:
    async def work() -> None: ...

    with pytest.raises(InvalidNameError):
        workflow(name="x" * 256)(work)


def test_queries_are_plain_functions() -> None:
    async def late(state: object) -> None: ...

    with pytest.raises(TypeError):
        checkout.query("late")(late)


# --- the registry


@pytest.fixture
def two_named_alike() -> Iterator[tuple[str, str]]:
    ids = "workflow//a.py//twin", "workflow//b.py//twin"

    async def first() -> None: ...

    async def second() -> None: ...

    for identity, fn in zip(ids, (first, second), strict=True):
        default.register(Workflow(fn, id=identity, name="twin"))
    yield ids
    for identity in ids:
        default.forget(identity)


def test_a_definition_is_found_by_id_and_by_its_short_name() -> None:  # M106
    assert default.find(f"workflow//{PATH}//checkout", "workflow") is checkout
    assert default.find("checkout", "workflow") is checkout
    assert default.find("Mailer.send", "step") is Mailer.send
    assert default.find("billing.charge", "step") is renamed


def test_a_short_name_of_two_definitions_is_ambiguous(two_named_alike: tuple[str, str]) -> None:  # M100
    with pytest.raises(AmbiguousNameError) as raised:
        default.find("twin", "workflow")
    assert all(identity in str(raised.value) for identity in two_named_alike)


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(DefinitionNotFoundError, match="checkout"):
        default.find("chekout", "workflow")


def test_two_definitions_with_one_id_are_refused_and_the_first_stays() -> None:  # M100
    async def one() -> None: ...

    async def other() -> None: ...

    first = workflow(name="only-one")(one)
    with pytest.raises(DuplicateIdError, match="only-one"):
        workflow(name="only-one")(other)
    with pytest.raises(DuplicateIdError):
        step(name="only-one")(other)
    assert default.get("only-one") is first
    default.forget("only-one")


def test_the_same_function_again_replaces_itself() -> None:
    def define() -> Step[[], int]:
        @step
        async def again() -> int:
            return 1

        return again

    first, second = define(), define()
    assert first is not second
    assert default.get(first.id) is second


async def test_a_call_that_does_not_fit_says_whose_it_is(engine: Any) -> None:
    @workflow
    async def calls() -> list[str]:
        texts: list[str] = []
        for call in (lambda: add(1, 2, 3), lambda: join([charge("a"), charge("b")]), lambda: race([charge("a")])):
            try:
                await call()  # type: ignore[arg-type,call-arg]
            except TypeError as error:
                texts.append(str(error))
        return texts

    step_call, join_call, race_call = await (await engine.start(calls)).result()
    assert step_call.startswith("add(")
    assert step_call.endswith("too many positional arguments")
    for text, construct in ((join_call, "join()"), (race_call, "race()")):
        assert text.startswith(f"{construct} takes a mapping of names")
        assert "parallel([...])" in text
