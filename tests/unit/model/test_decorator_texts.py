"""What the decorators say about what they cannot mark: the code, and what somebody who wrote a decorator can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenuto import step, workflow
from tenuto.errors import DefinitionNotFoundError, DirectiveError
from tenuto.model.registry import default


class Method:
    def plain(self) -> None: ...
    async def coroutine(self) -> None: ...
    def generator() -> Any:  # type: ignore[misc]
        yield 1


def plain_function() -> None: ...


class Callable_:
    def __call__(self) -> None: ...


class Made(type):
    """A class of classes."""


@pytest.mark.parametrize("mark", [step, step(max_attempts=2), step(name="c"), workflow, workflow(name="c")])
@pytest.mark.parametrize("cls", [Method, int, Callable_, Made("M", (), {})])
def test_a_class_is_refused_at_the_decorator(mark: Any, cls: type) -> None:
    with pytest.raises(TypeError, match=f"not the class {cls.__qualname__}: mark") as raised:
        mark(cls)
    assert not isinstance(raised.value, DirectiveError)
    assert default.get("c") is None


async def test_a_class_may_be_called_as_a_step_under_a_name() -> None:
    assert await step("number", int, "7") == 7


@pytest.mark.parametrize(
    ("make", "code", "help_"),
    [
        (lambda: step(Method.plain), "DIR102", "put @staticmethod above @step"),
        (lambda: workflow(Method.coroutine), "DIR102", "put @staticmethod above @workflow"),
        (lambda: step(staticmethod(len)), "DIR102", "change the order of the two lines"),  # type: ignore[arg-type]
        (lambda: step(Method.generator), "DIR110", "return a list"),
        (lambda: workflow(plain_function), "DIR101", "write `async def plain_function`"),  # type: ignore[arg-type]
        (lambda: step(step(name="once")(lambda: 1)), "DIR121", "keep one of the two decorators"),
    ],
)
def test_what_cannot_be_marked_is_refused_with_its_code_and_what_to_do(
    make: Callable[[], Any], code: str, help_: str
) -> None:
    with pytest.raises(DirectiveError) as raised:
        make()
    default.forget("once")
    assert raised.value.code == code
    assert str(raised.value).startswith(code)
    assert help_ in str(raised.value)
    assert str(raised.value).count(code) == 1


@pytest.mark.parametrize("sort", ["step", "workflow"])
def test_a_name_without_neighbours_says_what_to_do_next(sort: Any) -> None:
    with pytest.raises(DefinitionNotFoundError) as raised:
        default.find("qqqqqqqqqqqqqqqqqq", sort)
    lines = str(raised.value).splitlines()
    assert lines[0] == f"TN215 no {sort} is called 'qqqqqqqqqqqqqqqqqq'"
    assert lines[-1].split() == ["next", "import", "its", "module", "in", "this", "process,", "or", "give", "its", "id"]
