"""Records: versioned BARE (K006, K007)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import bare
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec import records
from tenuto.errors import RecordError
from tenuto.kernel.records import (
    Branch,
    BranchStatus,
    Checkpoint,
    Child,
    ChildMode,
    Counters,
    Entry,
    Flag,
    Join,
    JoinMode,
    Loop,
    Mail,
    MailKind,
    Message,
    Metadata,
    Patch,
    PatchMark,
    Race,
    Removed,
    SideEffect,
    Sleep,
    Step,
    StepStatus,
    Taken,
    Update,
    UpdateStatus,
)

from . import strategies

AT, BEGAN, DEADLINE, SENT = 1700000000123, 1700000000100, 1700003600000, 1700000000050
DONE = StepStatus.COMPLETED

SIX = "0100 0600000000000000 A B 00"
GOLDEN_ENTRIES = [
    (Entry(1, AT, BEGAN, 0, Step(DONE, b"\x65hello")), "0100 0100000000000000 A B 00 00 03 01066568656c6c6f 00 00 00"),
    (Entry(1, AT, BEGAN, 0, Step(DONE, b"\xf6")), "0100 0100000000000000 A B 00 00 03 0101f6 00 00 00"),
    (
        Entry(2, AT, BEGAN, 0, Step(DONE, b"\x18\x2a", undo="refund")),
        "0100 0200000000000000 A B 00 00 03 0102182a 00 0106726566756e64 00",
    ),
    (
        Entry(0, 0, BEGAN, 0, Step(StepStatus.STARTED)),
        "0100 0000000000000000 0000000000000000 B 00 00 00 00 00 00 00",
    ),
    (Entry(7, AT, BEGAN, Flag.INSERTED, Step(DONE, b"\x01")), "0100 0700000000000000 A B 01 00 03 010101 00 00 00"),
    (
        Entry(41, AT, BEGAN, 0, Loop(20, b"\x18\xbe", 0, 3)),
        "0100 2900000000000000 A B 00 01 14000000 0218be 00000000 0300000000000000 00",
    ),
    (Entry(0, 0, BEGAN, 0, Sleep(DEADLINE)), "0100 0000000000000000 0000000000000000 B 00 02 80561cd08b010000"),
    (
        Entry(4, AT, BEGAN, 0, Message(("approve",), None, Taken("000000000000002a", "approve", b"\x81\xf5", SENT))),
        "0100 0400000000000000 A B 00 03 01 07617070726f7665 00 01 1030303030303030303030303030303261"
        " 07617070726f7665 0281f5 3268e5cf8b010000",
    ),
    (
        Entry(
            5,
            AT,
            BEGAN,
            0,
            Join(JoinMode.JOIN, (Branch("x", BranchStatus.COMPLETED), Branch("y", BranchStatus.FAILED))),
        ),
        "0100 0500000000000000 A B 00 04 00 02 017801 017902",
    ),
    (
        Entry(
            5, AT, BEGAN, 0, Race("w1", (Branch("w1", BranchStatus.COMPLETED), Branch("w2", BranchStatus.CANCELLED)))
        ),
        "0100 0500000000000000 A B 00 05 01027731 02 02773101 02773203",
    ),
    (Entry(6, AT, BEGAN, 0, Removed("step")), SIX + "06 0473746570"),
    (Entry(6, AT, BEGAN, 0, SideEffect(b"\x64A-17")), SIX + "07 010564412d3137 00"),
    (Entry(6, AT, BEGAN, 0, Patch(PatchMark.TAKEN)), SIX + "08 01"),
    (Entry(6, AT, BEGAN, 0, Checkpoint()), SIX + "0a"),
    (
        Entry(0, 0, BEGAN, 0, Child(ChildMode.SPAWN, 6, "order-42:0:pack", "ship")),
        "0100 0000000000000000 0000000000000000 B 00 09 00 0600000000000000"
        " 0f6f726465722d34323a303a7061636b 0473686970 00 00",
    ),
]
GOLDEN_OTHERS: list[tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any], str]] = [
    (
        Metadata(2, AT, AT + 400),
        records.encode_metadata,
        records.decode_metadata,
        "0100 02000000 A 010b6ae5cf8b010000 00 00",
    ),
    (
        Mail(MailKind.SIGNAL, "approve", None, b"\x81\xf5", None, 0, SENT),
        records.encode_mail,
        records.decode_mail,
        "0100 00 07617070726f7665 00 010281f5 00 00000000 3268e5cf8b010000",
    ),
    (
        Update(8, AT, "add", b"\x81\x01", UpdateStatus.COMPLETED, b"\x62ok"),
        records.encode_update,
        records.decode_update,
        "0100 0800000000000000 A 03616464 028101 02 0103626f6b 00",
    ),
    (
        Counters(1700000000000),
        records.encode_counters,
        records.decode_counters,
        "0100 0068e5cf8b010000 00000000 00000000 01000000 00",
    ),
    ("charge", records.encode_name, records.decode_name, "06636861726765"),
]


def spelled(sample: str) -> bytes:
    return bytes.fromhex(sample.replace("A", "7b68e5cf8b010000").replace("B", "6468e5cf8b010000"))


@pytest.mark.parametrize(("entry", "sample"), GOLDEN_ENTRIES)
def test_k006_the_entries_of_the_specification_have_exactly_these_bytes(entry: Entry, sample: str) -> None:
    assert records.encode_entry(entry) == spelled(sample)
    decoded = records.decode_entry(spelled(sample))
    assert decoded == entry
    assert type(decoded) is Entry
    assert type(decoded.kind) is type(entry.kind)


@pytest.mark.parametrize(("record", "encode", "decode", "sample"), GOLDEN_OTHERS)
def test_k006_the_other_records_of_the_specification_have_exactly_these_bytes(
    record: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], sample: str
) -> None:
    assert encode(record) == spelled(sample)
    assert decode(spelled(sample)) == record


# --- against an independent BARE codec: the schema of the specification, field by field

STEP = ["enum", "?data", "?data", "?str", "?data"]
SCHEMAS: dict[str, list[str]] = {
    "Step": STEP,
    "Loop": ["u32", "data", "u32", "u64", "?data"],
    "Sleep": ["u64"],
    "Message": ["*str", "?u64", "?Taken"],
    "Taken": ["str", "str", "data", "u64"],
    "Join": ["enum", "*Branch"],
    "Branch": ["str", "enum"],
    "Race": ["?str", "*Branch"],
    "Removed": ["str"],
    "SideEffect": ["?data", "?data"],
    "Patch": ["enum"],
    "Child": ["enum", "u64", "str", "str", "?data", "?data"],
    "Checkpoint": [],
    "Entry": ["u64", "u64", "u64", "u8", "kind"],
    "Metadata": ["u32", "u64", "?u64", "?data", "?Rollback"],
    "Rollback": ["u32", "?u64", "?u64", "?data"],
    "Mail": ["enum", "str", "?str", "?data", "?data", "u32", "u64"],
    "Update": ["u64", "u64", "str", "data", "enum", "?data", "?data"],
    "Counters": ["u64", "u32", "u32", "u32", "?Cancel"],
    "Cancel": ["u64", "u64", "?str", "?u64"],
}
TAGS = ["Step", "Loop", "Sleep", "Message", "Join", "Race", "Removed", "SideEffect", "Patch", "Child", "Checkpoint"]
PRIMITIVES = {"u8": bare.U8, "u32": bare.U32, "u64": bare.U64, "str": bare.Str, "data": bare.Data, "enum": bare.UInt}


def oracle(sort: str, value: Any) -> bytes:
    if sort.startswith("?"):
        return b"\x00" if value is None else b"\x01" + oracle(sort[1:], value)
    if sort.startswith("*"):
        return bytes(bare.UInt(len(value)).pack()) + b"".join(oracle(sort[1:], item) for item in value)
    if sort == "kind":
        name = type(value).__name__
        return bytes(bare.UInt(TAGS.index(name)).pack()) + oracle(name, value)
    if sort in PRIMITIVES:
        return bytes(PRIMITIVES[sort](int(value) if isinstance(value, IntEnum) else value).pack())
    return b"".join(oracle(field, part) for field, part in zip(SCHEMAS[sort], value, strict=True))


@given(strategies.entries)
def test_k006_any_entry_comes_back_and_is_written_as_the_independent_codec_writes_it(entry: Entry) -> None:
    encoded = records.encode_entry(entry)
    assert encoded == b"\x01\x00" + oracle("Entry", entry)
    decoded = records.decode_entry(encoded)
    assert decoded == entry
    assert type(decoded.kind) is type(entry.kind)
    assert [type(part) for part in decoded.kind] == [type(part) for part in entry.kind]


@pytest.mark.slow
@given(strategies.metadata, strategies.mail, strategies.updates, strategies.counters, strategies.TEXT)
def test_k006_any_other_record_comes_back_and_is_written_as_the_independent_codec_writes_it(
    metadata: Metadata, mail: Mail, update: Update, counters: Counters, name: str
) -> None:
    for sort, record, encode, decode in [
        ("Metadata", metadata, records.encode_metadata, records.decode_metadata),
        ("Mail", mail, records.encode_mail, records.decode_mail),
        ("Update", update, records.encode_update, records.decode_update),
        ("Counters", counters, records.encode_counters, records.decode_counters),
    ]:
        encoded = encode(record)  # type: ignore[operator]
        assert encoded == b"\x01\x00" + oracle(sort, record)
        assert decode(encoded) == record  # type: ignore[operator]
    assert records.encode_name(name) == oracle("str", name)
    assert records.decode_name(records.encode_name(name)) == name


# --- damage

ANY_DECODER = st.sampled_from(
    [
        (records.decode_entry, records.encode_entry),
        (records.decode_metadata, records.encode_metadata),
        (records.decode_mail, records.encode_mail),
        (records.decode_update, records.encode_update),
        (records.decode_counters, records.encode_counters),
        (records.decode_name, records.encode_name),
    ]
)
PLAIN = records.encode_entry(Entry(1, AT, BEGAN, 0, Step(DONE, b"\x65hello")))


def test_k007_a_record_of_an_unknown_version_is_refused() -> None:
    for encode, decode, record in [
        (records.encode_entry, records.decode_entry, GOLDEN_ENTRIES[0][0]),
        *[(encode, decode, record) for record, encode, decode, _ in GOLDEN_OTHERS if record != "charge"],
    ]:
        newer = b"\x02\x00" + encode(record)[2:]
        with pytest.raises(RecordError, match="version 2"):
            decode(newer)


def test_k007_an_entry_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(RecordError, match="kind 11"):
        records.decode_entry(PLAIN[:27] + b"\x0b" + PLAIN[28:])


def test_an_entry_with_an_unknown_flag_is_refused() -> None:
    with pytest.raises(RecordError, match="flags 10"):
        records.decode_entry(PLAIN[:26] + b"\x10" + PLAIN[27:])


@given(strategies.entries, st.data())
def test_an_entry_that_is_cut_off_or_goes_on_is_refused(entry: Entry, data: st.DataObject) -> None:
    encoded = records.encode_entry(entry)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(RecordError):
        records.decode_entry(encoded[:cut])
    with pytest.raises(RecordError):
        records.decode_entry(encoded + b"\x00")


@pytest.mark.parametrize(
    ("place", "byte"),
    [(28, 5), (29, 2)],
    ids=["a status that is none", "neither there nor not"],
)
def test_a_byte_that_means_nothing_is_refused(place: int, byte: int) -> None:
    with pytest.raises(RecordError):
        records.decode_entry(PLAIN[:place] + bytes([byte]) + PLAIN[place + 1 :])


def test_texts_that_are_not_utf8_and_lengths_in_a_longer_form_are_refused() -> None:
    assert records.decode_name(b"\x01a") == "a"
    for damaged in [
        b"\x01\xff",
        b"\x81\x00a",
        b"\x02a",
        b"",
        b"\xff" * 11,
        b"\x80" * 9 + b"\x02",
        b"\xff" * 9 + b"\x01a",
    ]:
        with pytest.raises(RecordError):
            records.decode_name(damaged)


def test_a_list_that_claims_more_items_than_there_are_bytes_is_refused_at_once() -> None:
    head = PLAIN[:27] + b"\x03"  # a message
    with pytest.raises(RecordError):
        records.decode_entry(head + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x00" * 10)


@given(ANY_DECODER, st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\x01\x00" + tail))
def test_any_bytes_are_one_record_or_a_record_error(codec: Any, data: bytes) -> None:
    decode, encode = codec
    try:
        record = decode(data)
    except RecordError:
        return
    assert encode(record) == data


@given(strategies.entries, st.data())
def test_an_entry_with_one_changed_byte_is_another_entry_or_a_record_error(entry: Entry, data: st.DataObject) -> None:
    encoded = bytearray(records.encode_entry(entry))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = records.decode_entry(bytes(encoded))
    except RecordError:
        return
    assert records.encode_entry(decoded) == bytes(encoded)
