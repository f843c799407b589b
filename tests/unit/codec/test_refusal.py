"""Where a value is refused, the text says what to write instead."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.values import dump
from tenuto.errors import EncodingError, LimitError


class Cents(int):
    pass


class Url:
    pass


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (Path("a"), "str(path)"),
        (deque([1]), "list(x)"),
        (range(3), "list(x)"),
        (OrderedDict(), "dict(x)"),
        (defaultdict(int), "dict(x)"),
        (Cents(3), "int(x)"),
        (memoryview(b"x"), "bytes(x)"),
        (Fraction(1, 3), "numerator"),
        ((n for n in range(3)), "list(x)"),
        (Url(), "serializable(Url, serialize=str, deserialize=Url)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_stored_is_refused_with_what_to_write_instead(value: Any, fix: str) -> None:
    with pytest.raises(EncodingError) as refused:
        dump({"a": [value]})
    assert refused.value.path == "$.a[0]"
    assert fix in str(refused.value).partition("  next")[2]


def test_a_limit_says_how_it_is_raised_or_that_it_cannot_be() -> None:
    nested: list[Any] = []
    for _ in range(101):
        nested = [nested]
    with pytest.raises(LimitError, match="this limit cannot be raised"):
        dump(nested)
    with pytest.raises(LimitError, match=r"raise the limit: Tenuto\(limits=Limits\("):
        dump("x" * (2**21 + 1))
