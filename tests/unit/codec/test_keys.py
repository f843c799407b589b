"""Keys: tuples as bytes (K001 to K004, K008)."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec import keys
from tenuto.errors import RecordError

GOLDEN = [
    ((1, 0), "150114"),
    ((1, 1), "15011501"),
    ((1, 255), "150115ff"),
    ((1, 256), "1501160100"),
    ((2, 0), "150214"),
    ((2, 4, 5, 6), "1502150415051506"),
    ((2, 2, (2, 0), 3), "1502150205150214001503"),
    ((2, 2, (2, 256), 3), "15021502051502160100001503"),
    ((2, (0, 1, 0)), "1502051415011400"),
    ((2, (0, 256, 0)), "150205141601001400"),
    ((2, 4, (4, 2, 1), 6), "1502150405150415021501001506"),
    ((2, (7, 0, 2), 0), "15020515071415020014"),
    ((2, 8, (9, 3, 3), 0), "15021508051509150315030014"),
    ((2, 2, (2, 0)), "150215020515021400"),
    ((2, 2, (2, 10)), "15021502051502150a00"),
    ((3, "000000000000002a"), "1503023030303030303030303030303030326100"),
    *[((4, n), f"150415{n:02x}") for n in range(1, 8)],
    ((6, "u-1"), "150602752d3100"),
    ((6, "a\0b"), "1506026100ff6200"),
]

# One less than we can hold: the independent codec writes exactly 2^64 - 1 in its form for larger integers.
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 2))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.text("\0a\xff", max_size=4)
SCALARS = NUMBERS | TEXTS
TUPLES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
KEYS = st.lists(TUPLES, max_size=5).map(tuple)


def load_tuple_layer() -> Any:
    """The tuple layer of FoundationDB alone: its package wants a C library that a codec does not need."""
    found = importlib.util.find_spec("fdb")
    assert found is not None
    assert found.submodule_search_locations is not None
    stub = types.ModuleType("fdb")
    stub.__dict__["is_fdb_bytes"] = False
    before = sys.modules.get("fdb")
    sys.modules["fdb"] = stub
    try:
        path = Path(found.submodule_search_locations[0]) / "tuple.py"
        spec = importlib.util.spec_from_file_location("fdb_tuple_layer", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del sys.modules["fdb"]
        else:
            sys.modules["fdb"] = before
    return module


ORACLE = load_tuple_layer()


def order(element: Any) -> Any:
    """A key under which Python sorts elements as their sorts do: text, then tuples, then integers."""
    if isinstance(element, str):
        return (0, element.encode())
    if isinstance(element, tuple):
        return (1, [order(inner) for inner in element])
    return (2, element)


@pytest.mark.parametrize(("key", "packed"), GOLDEN)
def test_k001_the_keys_of_the_specification_have_exactly_these_bytes(key: keys.Key, packed: str) -> None:
    assert keys.pack(key).hex() == packed
    assert keys.unpack(bytes.fromhex(packed)) == key
    assert ORACLE.pack(key).hex() == packed


@pytest.mark.slow
@given(KEYS)
def test_k001_any_key_comes_back_and_is_packed_as_the_independent_codec_packs_it(key: keys.Key) -> None:
    packed = keys.pack(key)
    assert keys.unpack(packed) == key
    assert packed == ORACLE.pack(key)
    assert ORACLE.unpack(packed) == key


def test_the_largest_integer_comes_back() -> None:
    assert keys.unpack(keys.pack((2**64 - 1,))) == (2**64 - 1,)
    assert keys.pack((2**64 - 1,)).hex() == "1c" + "ff" * 8


@pytest.mark.slow
@given(KEYS, KEYS)
def test_k002_byte_order_is_tuple_order(a: keys.Key, b: keys.Key) -> None:
    assert (keys.pack(a) < keys.pack(b)) == (order(a) < order(b))


@pytest.mark.slow
@given(KEYS, KEYS)
def test_a_packed_tuple_is_a_prefix_exactly_of_its_extensions(a: keys.Key, b: keys.Key) -> None:
    extends = b[: len(a)] == a
    assert keys.pack(b).startswith(keys.pack(a)) == extends
    start, end = keys.children(a) if a else (b"", b"\xff")
    assert (start <= keys.pack(b) < end) == extends


def test_k003_listing_a_prefix_gives_a_key_and_what_lies_below_it() -> None:
    rows = sorted(keys.pack((2, *place)) for place in [(4,), (4, 5), (5,), (256,)])
    start, end = keys.children((2, 4))
    assert [row for row in rows if start <= row < end] == [keys.pack((2, 4)), keys.pack((2, 4, 5))]


def test_k004_deleting_a_range_of_iterations_leaves_later_ones_and_neighbours() -> None:
    iterations = {n: keys.pack((2, 2, (2, n), 7)) for n in range(301)}
    neighbour = keys.pack((2, 3))
    start, end = keys.pack((2, 2, (2, 0))), keys.pack((2, 2, (2, 256)))
    assert [n for n, key in iterations.items() if not start <= key < end] == list(range(256, 301))
    assert not start <= neighbour < end


def test_k008_name_rows_list_in_the_order_of_their_indices() -> None:
    assert sorted([keys.pack((1, 1)), keys.pack((1, 0)), keys.pack((1, 300))]) == [
        keys.pack((1, n)) for n in (0, 1, 300)
    ]


@pytest.mark.parametrize(
    "damaged",
    [
        "15",  # an integer without its byte
        "1500",  # not the shortest form
        "160001",  # not the shortest form
        "1c0102",  # cut off
        "1d010000000000000000",  # nine bytes
        "13fe",  # negative
        "00",  # nothing starts so
        "01ff00",  # a byte string, not in our subset
        "02ff00",  # not UTF-8
        "0261",  # a text without its end
        "026100ff",  # ends in an escaped null
        "0514",  # a tuple without its end
        "05" * 9 + "00" * 9,  # too deep
        "05" * 10_000,
        "ff",
    ],
)
def test_bytes_that_no_tuple_packs_to_are_refused(damaged: str) -> None:
    with pytest.raises(RecordError):
        keys.unpack(bytes.fromhex(damaged))


@given(st.binary(max_size=24) | st.lists(st.sampled_from([0, 1, 2, 5, 0x14, 0x15, 0x16, 0x61, 0xFF])).map(bytes))
def test_any_bytes_are_one_key_or_a_record_error(data: bytes) -> None:
    try:
        key = keys.unpack(data)
    except RecordError:
        return
    assert keys.pack(key) == data


@pytest.mark.parametrize(("key", "error"), [((True,), TypeError), ((-1,), ValueError), ((2**64,), ValueError)])
def test_a_key_holds_only_what_it_could_give_back(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        keys.pack(key)


def test_nothing_sorts_after_a_prefix_of_all_ones() -> None:
    assert keys.prefix_end(b"\x15\xff\xff") == b"\x16"
    with pytest.raises(ValueError, match="nothing sorts after"):
        keys.prefix_end(b"\xff\xff")
