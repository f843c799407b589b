"""Small bytes take little time, and large values are refused before they are copied."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import cbor2
import pytest

from tenuto.codec.values import dump, dump_call, load
from tenuto.errors import DecodingError, LimitError

PRIME = 2**61 - 1  # integers that differ by it have one hash

KEYS: dict[str, Callable[[int], Any]] = {
    "integers": lambda n: n * PRIME,
    "negative integers": lambda n: -n * PRIME - 7,
    "decimals": lambda n: Decimal(n * PRIME),
    "UUIDs": lambda n: UUID(int=n * PRIME),
    "tuples": lambda n: (n * PRIME, "x"),
    "frozensets": lambda n: frozenset([n * PRIME]),
}
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "map": lambda keys: dict.fromkeys(keys, 0),
    "set": set,
    "frozenset": frozenset,
    "inside": lambda keys: [{"a": dict.fromkeys(keys)}],
}


def plainly(value: Any) -> bytes:
    """The bytes of a value that our writer refuses."""
    from tenuto.codec import crowds

    kept, crowds.MOST = crowds.MOST, 10**9
    try:
        import tenuto.codec.values as values
        import tenuto.codec.writing as writing

        values.MOST = writing.MOST = crowds.MOST  # type: ignore[misc,attr-defined]
        return dump(value)
    finally:
        crowds.MOST = values.MOST = writing.MOST = kept  # type: ignore[misc,attr-defined]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("keys", KEYS)
def test_64_keys_of_one_hash_are_stored_and_one_more_is_refused_on_both_sides(keys: str, container: str) -> None:
    make, wrap = KEYS[keys], CONTAINERS[container]
    most = wrap([make(n) for n in range(1, 65)])
    assert load(dump(most)) == most
    with pytest.raises(LimitError, match="one hash"):
        dump(wrap([make(n) for n in range(1, 66)]))
    with pytest.raises(DecodingError, match="one hash"):
        load(plainly(wrap([make(n) for n in range(1, 66)])))


def test_ordinary_containers_of_any_size_are_not_refused() -> None:
    for value in (
        dict.fromkeys(range(5000)),
        dict.fromkeys(n / 1024 for n in range(5000)),
        dict.fromkeys(str(n) for n in range(5000)),
        dict.fromkeys((n, -n) for n in range(500)),
        {n << 40 for n in range(5000)},
        {Decimal(n) for n in range(500)},
    ):
        assert load(dump(value)) == value


@pytest.mark.parametrize("count", [400, 16_000, 100_000])
def test_chosen_keys_take_no_longer_than_others(count: int) -> None:
    parts = [cbor2.dumps(n * PRIME) + b"\x00" for n in range(1, count)]
    data = b"\xba" + (count - 1).to_bytes(4, "big") + b"".join(parts)
    if count < 65536:
        data = b"\xb9" + (count - 1).to_bytes(2, "big") + b"".join(parts)
    began = time.perf_counter()
    with pytest.raises(DecodingError, match="one hash"):
        load(data)
    assert time.perf_counter() - began < 1


# --- sets


@pytest.mark.parametrize("tag", ["d90102", "d97401"])
def test_a_set_is_read_in_the_order_of_its_bytes_only(tag: str) -> None:
    assert load(bytes.fromhex(tag + "830a61616162")) == {10, "a", "b"}
    for other in ("83616161620a", "830a61626161", "8361610a6162"):
        with pytest.raises(DecodingError, match="order"):
            load(bytes.fromhex(tag + other))
    with pytest.raises(DecodingError, match="twice"):
        load(bytes.fromhex(tag + "820101"))


# --- sizes

LARGE = 64 * 2**20


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: text,
        lambda text: text.encode(),
        lambda text: bytearray(text.encode()),
        lambda text: [text],
        lambda text: {"k": text},
        lambda text: {text: 1},
        lambda text: (text, 1),
        lambda text: {text},
        lambda text: [text] * 1000,
        lambda text: ({"k": [text] * 20},),
    ],
    ids=["text", "bytes", "bytearray", "list", "map", "key", "tuple", "set", "long list", "nested"],
)
def test_a_value_that_is_too_large_is_refused_before_it_is_copied(wrap: Callable[[str], Any]) -> None:
    value = wrap("x" * LARGE)
    assert peak(lambda: dump(value)) < LARGE * 1.5


def test_arguments_that_are_too_large_are_refused_before_they_are_copied() -> None:
    text = "x" * LARGE
    assert peak(lambda: dump_call([text], {})) < LARGE / 8
    assert peak(lambda: dump_call([], {"k": text})) < LARGE / 8


def test_a_long_text_of_an_error_is_cut_before_it_is_copied() -> None:
    error = ValueError("x" * LARGE)
    tracemalloc.start()
    try:
        assert len(dump(error)) < 20_000
        assert tracemalloc.get_traced_memory()[1] < LARGE / 8
    finally:
        tracemalloc.stop()


def peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="encoded value"):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
