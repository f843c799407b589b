"""Frames around sealed and compressed values: read before anybody has vouched for the bytes."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec.frames import Part, described, framed, parts_of, read_frame
from tenuto.codec.rows import decode_rows
from tenuto.codec.sealing import Encryption, Place
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, RecordError

HERE = Place("store", "row", "run", b"\x15\x01")

LEAVES: st.SearchStrategy[Part] = st.text(st.characters(codec="utf-8"), max_size=300) | st.binary(max_size=300)
FRAMES = LEAVES | st.lists(LEAVES | st.lists(LEAVES, max_size=3), max_size=4)


@given(FRAMES)
def test_a_frame_is_what_an_independent_codec_reads(frame: Part) -> None:
    assert read_frame(cbor2.dumps(frame)) == frame


@given(st.binary(max_size=60) | FRAMES.map(cbor2.dumps))
def test_any_bytes_are_one_frame_or_refused(data: bytes) -> None:
    try:
        frame = read_frame(data)
    except ValueError:
        return
    assert cbor2.dumps(frame) == data


@pytest.mark.parametrize(
    "content",
    [
        5,
        None,
        1.5,
        True,
        {},
        [["a", ["b"]], [["too deep"]]],
        ["k", 12],
        cbor2.CBORTag(2, b"\x01"),
        cbor2.CBORTag(28, ["a reference"]),
        [cbor2.CBORTag(258, ["a"])],
        ["k", cbor2.CBORTag(0, "2026-01-31T12:00:00Z")],
    ],
    ids=repr,
)
def test_what_is_neither_text_nor_bytes_nor_an_array_is_not_interpreted(content: Any) -> None:
    with pytest.raises(ValueError, match="malformed"):
        read_frame(cbor2.dumps(content))
    sealed = framed("aes-gcm", cbor2.dumps(content))
    with pytest.raises(DecodingError, match="malformed"):
        Encryption({"k": b"k" * 32}).open(sealed, HERE)


@pytest.mark.parametrize("data", ["7f6161ff", "5801aa", "9f6161ff", "9affffffff", "61", "61ff", "780161", ""])
def test_lengths_are_definite_shortest_and_not_beyond_the_bytes(data: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # not UTF-8 is one too, with a text of its own
        read_frame(bytes.fromhex(data))


# --- whoever reads a sealed value without its codec


def sealed(data: bytes) -> bytes:
    return Encryption({"2026": b"k" * 32}).seal(data, HERE)


def test_a_sealed_value_says_by_which_key_and_a_plain_one_nothing() -> None:
    assert described(sealed(b"\x01")) == "sealed by key '2026'"
    assert described(framed("zlib", b"x")) == "stored by the codec 'zlib'"
    assert described(framed("aes-gcm", b"\xff")) == "stored by a codec, and malformed"
    assert described(dump("plain")) is None
    assert parts_of(dump("plain")) is None


def test_a_sealed_value_that_nobody_opened_is_refused_as_such() -> None:
    with pytest.raises(DecodingError, match="sealed by key '2026'") as caught:
        load(sealed(dump(1)))
    assert "give it (codec=, --codec)" in str(caught.value)


@pytest.mark.parametrize("key", ["150114", "15021401", "15041504", "15041507", "15041505"])
def test_rows_that_are_sealed_are_not_called_damaged(key: str) -> None:
    """R083: TN306 is for what is damaged, TN307 for what is sealed."""
    rows = [(bytes.fromhex(key), sealed(b"x"))]
    with pytest.raises(DecodingError, match="run r cannot be read: they are sealed by key '2026'"):
        decode_rows("r", rows)
    with pytest.raises(RecordError):
        decode_rows("r", [(bytes.fromhex(key), b"\x01")])
