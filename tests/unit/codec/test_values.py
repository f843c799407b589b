"""User values as CBOR (K115, K116, K118, K121)."""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.codec.values import ValueLimits, dump, dump_call, dump_error, load
from tenuto.errors import DecodingError, EncodingError, LimitError

GOLDEN: list[tuple[Any, str]] = [
    (None, "f6"),
    (42, "182a"),
    (1.0, "fb3ff0000000000000"),
    (b"\x00\x01", "420001"),
    ([1, "a"], "82016161"),
    ([[1], {"k": 2}], "828101a1616b02"),
    ((1, "a"), "d9740082016161"),
    ({"b", 10, "a"}, "d90102830a61616162"),
    (frozenset([1]), "d974018101"),
    (datetime(2026, 1, 31, 12, tzinfo=UTC), "c074323032362d30312d33315431323a30303a30305a"),
    (datetime(2026, 1, 31, 12), "d974058373323032362d30312d33315431323a30303a3030f600"),  # noqa: DTZ001
    (date(2026, 1, 31), "d903ec6a323032362d30312d3331"),
    (time(12, 30), "d97406826831323a33303a303000"),
    (timedelta(days=1, microseconds=5), "d903eaa2011a000151802505"),
    (timedelta(seconds=-1), "d903eaa10120"),
    (Decimal("1.10"), "d9740864312e3130"),
    (UUID(int=5), "d8255000000000000000000000000000000005"),
    (math.inf, "f97c00"),
    (-math.inf, "f9fc00"),
    (-0.0, "fb8000000000000000"),
    (2**64 - 1, "1bffffffffffffffff"),
    (2**64, "c249010000000000000000"),
    (-(2**64), "3bffffffffffffffff"),
    (-(2**64) - 1, "c349010000000000000000"),
]

LEAVES: list[Any] = [
    None,
    True,
    False,
    *[n for k in (0, 23, 24, 255, 256, 2**16, 2**32, 2**53, 2**64, 2**70) for n in (k - 1, k, k + 1, -k)],
    0.0,
    1.5,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    math.inf,
    "",
    "ä",
    "\0",
    "x" * 30,
    b"",
    b"\xff" * 300,
    datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC),
    datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(2026, 1, 31, tzinfo=timezone(timedelta(seconds=1, microseconds=1))),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
    datetime.min,  # noqa: DTZ901
    datetime.max,  # noqa: DTZ901
    date.min,
    time(23, 59, 59, 999999, fold=1),
    timedelta.min,
    timedelta.max,
    timedelta(microseconds=-1),
    timedelta(0),
    Decimal("-0"),
    Decimal("1E+999999"),
    Decimal("sNaN12"),
    Decimal("-Infinity"),
    UUID("ef6b174d-f14b-45b6-b3ba-17750e50abb1"),
    (),
    (1, (2, [3])),
    set(),
    frozenset(),
    frozenset([(1, 2), frozenset(["a"])]),
    {},
    {1: 2, None: 3, "x": 4, (1, 2): 5, frozenset([1]): 6, 2.5: 7, b"k": 8, date(2026, 1, 1): 9},
]

CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda value: value,
    "list": lambda value: [value, 1],
    "dict": lambda value: {"k": value, "l": []},
    "tuple": lambda value: (value,),
    "deep": lambda value: {"a": [({"b": (value, [])},)]},
}


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal in value, exact type, sign and fold, all the way down."""
    if type(a) is not type(b):
        return False
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if type(a) in (set, frozenset):
        return a == b and same(sorted(map(dump, a)), sorted(map(dump, b)))
    if type(a) is float:
        return repr(a) == repr(b)
    if type(a) is Decimal:
        return str(a) == str(b)
    if type(a) in (datetime, time):
        # With a fixed offset there is nothing a fold could tell apart, and it is not stored.
        folds = a.fold == b.fold or type(a.tzinfo) is timezone
        return a == b and folds and type(a.tzinfo) is type(b.tzinfo) and str(a.tzinfo) == str(b.tzinfo)
    return bool(a == b)


@pytest.mark.parametrize(("value", "sample"), GOLDEN)
def test_k115_the_values_of_the_specification_have_exactly_these_bytes(value: Any, sample: str) -> None:
    assert dump(value).hex() == sample
    assert same(load(bytes.fromhex(sample)), value)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("value", LEAVES, ids=lambda value: type(value).__name__)
def test_k115_every_type_comes_back_the_same_in_every_container(value: Any, container: str) -> None:
    held = CONTAINERS[container](value)
    assert same(load(dump(held)), held)


def test_nan_comes_back_as_the_one_nan() -> None:
    for nan in (math.nan, -math.nan, Decimal("NaN")):
        assert str(load(dump(nan))).lower() == "nan"
    assert dump(-math.nan).hex() == "f97e00"
    assert len(load(dump({math.nan: 1, float("nan"): 2}))) == 2


def test_k115_containers_inside_tags_come_back_mutable() -> None:
    lists, dicts, sets = load(dump(([1], {"a": {}}, {3})))
    lists.append(2)
    dicts["a"]["b"] = 1
    sets.add(4)
    assert (lists, dicts, sets) == ([1, 2], {"a": {"b": 1}}, {3, 4})


def test_a_bytearray_comes_back_as_bytes() -> None:
    assert same(load(dump([bytearray(b"ab")])), [b"ab"])


@pytest.mark.slow
@pytest.mark.parametrize("count", [23, 24, 255, 256, 65_535, 65_536])
def test_any_number_of_items_comes_back(count: int) -> None:
    value = [()] * count
    data = dump(value)
    assert data == cbor2.dumps([cbor2.CBORTag(29696, [])] * count)
    assert load(data) == value


def test_maps_keep_their_order() -> None:
    assert list(load(dump({"b": 1, "a": 2, 3: ()}))) == ["b", "a", 3]


@pytest.mark.slow
def test_k116_a_set_has_the_same_bytes_in_every_process() -> None:
    code = (
        "from tenuto.codec.values import dump; import hashlib;"
        "v = {'s': {f'item {n}' for n in range(50)}, 'f': frozenset((n, str(n)) for n in range(50))};"
        "print(hashlib.sha256(dump(v)).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(seen) == 1


# --- any value


def hashable(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3)


ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=45)), ZoneInfo("America/New_York")])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.binary(max_size=30),
    st.datetimes(timezones=ZONES),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
KEYS = st.recursive(SCALARS, hashable, max_leaves=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
    ),
    max_leaves=12,
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=8),
    max_leaves=40,
)


@pytest.mark.slow
@given(VALUES)
def test_k115_any_value_comes_back_the_same(value: Any) -> None:
    data = dump(value)
    assert same(load(data), value)
    assert dump(load(data)) == data


@pytest.mark.slow
@given(PLAIN)
def test_plain_values_are_what_an_independent_codec_makes_of_them(value: Any) -> None:
    try:
        data = dump(value)
    except EncodingError:
        return  # half a surrogate pair
    assert data == cbor2.dumps(value)
    assert dump(load(data)) == data


@pytest.mark.slow
@given(st.binary(max_size=40) | VALUES.map(dump))
def test_any_bytes_are_one_value_or_a_decoding_error(data: bytes) -> None:
    try:
        value = load(data)
    except DecodingError:
        return
    assert dump(value) == data or isinstance(value, set | frozenset | list | tuple | dict)


@pytest.mark.slow
@given(VALUES, st.data())
def test_a_changed_cut_or_lengthened_value_is_another_value_or_a_decoding_error(
    value: Any, draw: st.DataObject
) -> None:
    data = dump(value)
    place = draw.draw(st.integers(0, len(data) - 1))
    for damaged in (
        data[:place] + bytes([draw.draw(st.integers(0, 255))]) + data[place + 1 :],
        data[:place],
        data + data[:1],
    ):
        try:
            load(damaged)
        except DecodingError:
            continue
        assert len(damaged) == len(data)


@pytest.mark.slow
@given(VALUES)
def test_a_cut_or_lengthened_value_is_refused(value: Any) -> None:
    data = dump(value)
    for damaged in (data[:-1], data + b"\x00", data + data):
        with pytest.raises(DecodingError):
            load(damaged)


NAMES = st.sampled_from(
    [
        dump(name)
        for name in [
            "builtins:ValueError",
            "builtins:OSError",
            "builtins:ExceptionGroup",
            "uuid:SafeUUID",
            "safe",
            "UTC",
            "12:00:00",
            "2026-01-31",
            "2026-01-31T12:00:00Z",
            "1.5",
            "args",
            "start",
            "errno",
            *"tmadnbcxg",
        ]
    ]
)
SMALL = st.sampled_from(
    [dump(value) for value in (None, True, 0, 1, -6, 5, 2**64, 1 << 20_000, 1.5, b"", b"x" * 9, bytes(16))]
)


def joined(parts: list[bytes]) -> bytes:
    return b"".join(parts)


def tagged(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes that look like values of every tag, with any content."""
    numbers = st.sampled_from([0, 2, 3, 37, 258, 1002, 1004, *range(29696, 29708)])
    heads = numbers.map(lambda number: cbor2.dumps(cbor2.CBORTag(number, 0))[:-1])
    arrays = st.lists(inner, max_size=3).map(lambda items: bytes([0x80 | len(items)]) + joined(items))
    maps = st.lists(st.tuples(NAMES | inner, inner).map(joined), max_size=3).map(
        lambda items: bytes([0xA0 | len(items)]) + joined(items)
    )
    pairs = st.tuples(st.just(b"\x82"), NAMES, inner).map(joined)
    errors = st.tuples(st.just(b"\xd9\x74\x04\xa3\x61t"), NAMES, st.just(b"\x61m"), NAMES, NAMES, inner).map(joined)
    return arrays | maps | errors | st.tuples(heads, inner | arrays | maps | pairs).map(joined)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.recursive(NAMES | SMALL | st.binary(min_size=1, max_size=2), tagged, max_leaves=8))
def test_any_bytes_that_look_like_a_value_are_one_or_a_decoding_error(data: bytes) -> None:
    try:
        value = load(data)
    except DecodingError:
        return
    again = dump(value)
    assert dump(load(again)) == again


# --- what is refused on reading


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        ("", "missing"),
        ("0505", "left over"),
        ("8201", "missing"),
        ("d9740f01", "tag 29711"),
        ("c11a00000000", "tag 1"),
        ("d81c80", "tag 28"),
        ("d81d00", "tag 29"),
        ("d9d9f705", "tag 55799"),
        ("d9740782647a7374644228b5", "tag 29703"),
        ("a2616101616102", "twice"),
        ("a20101f502", "twice"),
        ("d90102820101", "twice"),
        ("a18001", "cannot be a key"),
        ("a1a001", "cannot be a key"),
        ("d901028180", "cannot be a key"),
        ("d9010281d9010280", "cannot be a key"),
        ("f7", "stored form"),
        ("e0", "stored form"),
        ("f8ff", "stored form"),
        ("f97e01", "stored form"),
        ("f93c00", "stored form"),
        ("fa3f800000", "stored form"),
        ("fb7ff8000000000000", "stored form"),
        ("fb7ff0000000000000", "stored form"),
        ("fb3ff0", "missing"),
        ("1801", "shortest"),
        ("190001", "shortest"),
        ("1a0000ffff", "shortest"),
        ("1b00000000ffffffff", "shortest"),
        ("780161", "shortest"),
        ("c24101", "shortest"),
        ("c249000000000000000001", "shortest"),
        ("9f01ff", "indefinite"),
        ("5f4101ff", "indefinite"),
        ("1c", "malformed"),
        ("ff", "stored form"),
        ("61ff", "UTF-8"),
        ("62c328", "UTF-8"),
        ("9bffffffffffffffff", "missing"),
        ("bbffffffffffffffff", "missing"),
        ("5bffffffffffffffff00", "missing"),
        ("c0c074323032362d30312d33315431323a30303a30305a", "inside a tag"),
        ("c001", "not a text"),
        ("c074323032362d30312d33315431323a30303a30305b", "malformed"),
        ("c06a323032362d30312d3331", "stored form"),  # a date only
        ("d974056101", "3 fields"),
        ("d97405837332303236" + "2d30312d33315431323a30303a3030" + "666e6f77686572" + "00", "zone"),
        ("d97405837332303236" + "2d30312d33315431323a30303a3030" + "662e2e2f657463" + "00", "zone"),
        ("d97405837332303236" + "2d30312d33315431323a30303a3030" + "f602", "fold"),
        ("d97405837432303236" + "2d30312d33315431323a30303a30305a" + "f600", "stored form"),
        ("d97405837032303236" + "2d30312d33315431323a3030" + "f600", "stored form"),
        ("d903ec6a323032362d31332d3331", "malformed"),
        ("d903ec683230323630313331", "stored form"),
        ("d97406826531323a333000", "stored form"),
        ("d97406826831323a33303a303002", "fold"),
        ("d903eaa0", "duration"),
        ("d903eaa1011b7fffffffffffffff", "duration"),
        ("d903eaa20100251a000f4240", "duration"),
        ("d903eaa1f505", "duration"),
        ("d9740801", "decimal"),
        ("d974086178", "decimal"),
        ("d97408622031", "decimal"),
        ("d8254100", "UUID"),
        ("d97400a0", "tuple"),
        ("d90102a0", "set"),
        ("d9740001", "tuple"),
        ("d9740382646e6f706501", "not loaded"),
        ("d97403820102", "does not name"),
        ("d9740301", "not a pair"),
        ("d974028101", "pair"),
        ("d9740280", "pair"),
        ("d9740401", "not a map"),
        ("d97404a0", "no class or message"),
        ("d97404a2617401616d6161", "field t"),
        ("d97409826178f6", "not loaded"),
        ("d974098261780a", "malformed"),
        ("d9740a6178", "not loaded"),
        ("d9740a01", "no name"),
        ("d9740a" + "c2590800" + "ff" * 2048, "inside a tag"),
        ("d974028201c2590800" + "ff" * 2048, "pair"),
        ("a1c2590800" + "ff" * 2048 + "f7", "stored form"),
    ],
)
def test_k121_what_dump_would_not_write_load_does_not_read(damaged: str, why: str) -> None:
    with pytest.raises(DecodingError, match=why):
        load(bytes.fromhex(damaged))


def test_k121_the_same_is_refused_in_a_large_value() -> None:
    filler = dump("x" * 300)
    for damaged in ("f7", "f97e01", "1801", "d81c80", "c11a00000000", "a20101f502", "d9740f01"):
        with pytest.raises(DecodingError, match=r"\$\[1\]"):
            load(b"\x82" + filler + bytes.fromhex(damaged))
    with pytest.raises(DecodingError, match="left over"):
        load(filler + b"\x00")
    with pytest.raises(DecodingError, match="missing"):
        load(filler[:-1])


def test_a_decoding_error_says_where() -> None:
    with pytest.raises(DecodingError) as caught:
        load(bytes.fromhex("a1 656974656d73 82 01 a1 656f776e6572 d9740f01"))
    assert caught.value.path == "$.items[1].owner"


def test_references_that_would_fill_memory_are_refused_at_once() -> None:
    bomb = dump("x" * 200)
    for _ in range(60):
        bomb = b"\x82\xd8\x1c" + bomb + b"\xd8\x1d\x00"
    with pytest.raises(DecodingError):
        load(bomb)


# --- what is refused on writing


class Integer(int):
    pass


class Zone(tzinfo):
    pass


def sized(size: int) -> bytes:
    return bytes(size - 5)


@pytest.mark.parametrize(
    ("value", "path", "type_name"),
    [
        (object(), "$", "object"),
        ({"items": [1, 2, 3, {"owner": object()}]}, "$.items[3].owner", "object"),
        ([(1, {"a b": {2: 1j}})], "$[0][1]['a b'][2]", "complex"),
        ({"n": Integer(5)}, "$.n", f"{__name__}.Integer"),
        ([OrderedDict()], "$[0]", "collections.OrderedDict"),
        (defaultdict(list), "$", "collections.defaultdict"),
        ({Integer(5): 1}, "$[Integer]", f"{__name__}.Integer"),
        ({1, Integer(5)}, "${}", f"{__name__}.Integer"),
        ([memoryview(b"")], "$[0]", "memoryview"),
        ([len], "$[0]", "builtin_function_or_method"),
        ([open], "$[0]", "builtin_function_or_method"),
        ([lambda: 1], "$[0]", "function"),
        ([int], "$[0]", "int"),
        (["\ud800"], "$[0]", "str"),
        ({"t": (["x"] * 17, ["x"] * 17 + ["\ud800"])}, "$.t[1][17]", "str"),
        ({**dict.fromkeys("abcdefgh", 0), "i": ["\ud800"]}, "$.i[0]", "str"),
        ([*range(9), [object()]], "$[9][0]", "object"),
        ([*range(9), {(): object()}], "$[9][tuple]", "object"),
        ({"\ud800": 1}, "$['\\ud800']", "str"),
        (time(12, tzinfo=UTC), "$", "time"),
        ([datetime(2026, 1, 1, tzinfo=Zone())], "$[0]", "datetime"),
        ((n for n in ()), "$", "generator"),
    ],
    ids=lambda item: "" if not isinstance(item, str) else item,
)
def test_k118_a_value_without_a_form_is_refused_with_its_path_and_type(value: Any, path: str, type_name: str) -> None:
    with pytest.raises(EncodingError) as caught:
        dump(value)
    assert (caught.value.path, caught.value.type_name) == (path, type_name)
    assert str(caught.value).startswith(f"TN129 {path}: ")


def nested(levels: int, wrap: Callable[[Any], Any] = lambda value: [value]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: [value],
        lambda value: {"a": value},
        lambda value: (value,),
        lambda value: frozenset([value]),
    ],
)
def test_k118_a_hundred_levels_are_stored_and_one_more_is_refused(wrap: Callable[[Any], Any]) -> None:
    value = nested(100, wrap)
    assert load(dump(value)) == value
    with pytest.raises(LimitError, match="nesting"):
        dump(nested(101, wrap))
    with pytest.raises(LimitError, match="nesting"):
        dump(nested(100_000, wrap) if wrap(1) == [1] else nested(150, wrap))


def test_k118_a_level_too_many_is_refused_on_reading_too() -> None:
    for item, last in [(b"\x81", b"\x01"), (b"\xa1\x01", b"\x01"), (b"\xd9\x74\x00\x81", b"\x01")]:
        load(item * 100 + last)
        with pytest.raises(DecodingError, match="deep"):
            load(item * 101 + last)
        with pytest.raises(DecodingError):
            load(item * 100_000 + last)
    for bomb in (
        b"\xc0",
        b"\xd9\x74\x00",
        b"\xd9\x74\x03\x82\x61x",
        b"\xd9\x74\x09\x82\x61x",
        b"\xd9\x74\x04\xa1\x61c",
    ):
        with pytest.raises(DecodingError):
            load(bomb * 50_000)


def test_a_value_that_needs_more_of_the_stack_than_is_left_is_a_decoding_error() -> None:
    data = dump(nested(100))

    def from_below(levels: int) -> Any:
        return from_below(levels - 1) if levels else load(data)

    left = sys.getrecursionlimit() - len(inspect.stack(0))
    with pytest.raises(DecodingError, match="from here"):
        from_below(left - 100)
    assert from_below(left - 500) == nested(100)


def test_k118_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    table: dict[str, Any] = {"t": ()}
    table["self"] = (table,)
    wide: dict[int, Any] = dict.fromkeys(range(9))
    wide[3] = [wide]
    for value in (loop, table, wide, [loop, object()]):
        with pytest.raises(LimitError, match="nesting"):
            dump(value)


def test_k118_two_mebibytes_are_stored_and_one_byte_more_is_refused() -> None:
    limit = 2 * 1024 * 1024
    assert len(dump(sized(limit))) == limit
    for value in (sized(limit + 1), (sized(limit - 2),), [sized(limit - 1), 1]):
        with pytest.raises(LimitError) as caught:
            dump(value)
        assert caught.value.limit == limit
        assert caught.value.size > limit


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [list, tuple])
@pytest.mark.parametrize("times", [2, 20])
def test_k118_a_value_that_shares_its_parts_is_refused_when_it_gets_too_large(
    wrap: Callable[[Any], Any], times: int
) -> None:
    value: Any = wrap([1, 2])
    for _ in range(80):
        value = wrap([value] * times)
    with pytest.raises(LimitError, match="encoded value"):
        dump(value)


def test_limits_can_be_chosen() -> None:
    small = ValueLimits(size=10, depth=2)
    assert dump([[1]], small) == b"\x81\x81\x01"
    for value in ([[[1]]], (((1,),),), "x" * 10, ("x" * 9,)):
        with pytest.raises(LimitError):
            dump(value, small)
    with pytest.raises(DecodingError, match="deep"):
        load(b"\x81\x81\x81\x01", small)


def test_an_error_is_dumped_like_any_value() -> None:
    sample = "d97404a36174736275696c74696e733a56616c75654572726f72616d686261642063617264616181686261642063617264"
    error = ValueError("bad card")
    assert dump(error).hex() == dump_error(error).hex() == sample


@pytest.mark.parametrize(("args", "kwargs"), [(("\ud800",), {}), ((), {"name": "\ud800"})])
def test_a_call_with_a_text_that_utf_8_cannot_hold_is_refused_with_its_place(args: Any, kwargs: Any) -> None:
    with pytest.raises(EncodingError):
        dump_call(args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2.5, "x", None, True, b"z"), {"n": 5, "long": "y" * 300}), (tuple(range(30)), {"é": "ü"})],
)
def test_a_call_has_the_bytes_of_the_pair_it_is(args: Any, kwargs: Any) -> None:
    assert dump_call(args, kwargs) == dump([list(args), dict(kwargs)])
