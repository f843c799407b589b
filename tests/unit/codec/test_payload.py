"""Codecs around encoded values."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec.limits import ValueLimits
from tenuto.codec.payload import Payloads, ZlibCodec
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError

PAYLOADS = Payloads([ZlibCodec()])
WRAPPED = PAYLOADS.wrap(dump("x" * 5000))


class Zstd:
    id = "zstd"

    def encode(self, data: bytes) -> bytes:
        return b"\x28\xb5"

    def decode(self, data: bytes, limit: int) -> bytes:
        return b"\x01"


def test_the_form_is_that_of_the_specification() -> None:
    payloads = Payloads([Zstd()])
    assert payloads.wrap(bytes(2000)).hex() == "d9740782647a7374644228b5"
    assert payloads.unwrap(bytes.fromhex("d9740782647a7374644228b5")) == b"\x01"


def test_a_large_value_gets_shorter_and_comes_back() -> None:
    assert len(WRAPPED) < 100
    assert load(PAYLOADS.unwrap(WRAPPED)) == "x" * 5000


@given(st.binary(max_size=3000))
def test_any_value_comes_back(value: bytes) -> None:
    data = dump(value)
    assert PAYLOADS.unwrap(PAYLOADS.wrap(data)) == data


def test_small_values_and_those_that_would_grow_are_left_alone() -> None:
    small = dump("x" * 100)
    noise = b"".join(sha256(bytes([n])).digest() for n in range(100))
    for data in (small, noise):
        assert PAYLOADS.wrap(data) is data
    assert Payloads().wrap(dump("x" * 5000)) == dump("x" * 5000)


def test_a_value_of_a_codec_that_is_not_there_is_refused_and_the_codec_named() -> None:
    with pytest.raises(DecodingError, match="no payload codec 'zlib'") as caught:
        Payloads().unwrap(WRAPPED)
    assert caught.value.type_name == "zlib"
    with pytest.raises(DecodingError):
        load(WRAPPED)


@pytest.mark.slow
def test_a_value_that_expands_beyond_the_limit_is_refused() -> None:
    payloads = Payloads([ZlibCodec()], ValueLimits(size=5003))
    assert payloads.unwrap(WRAPPED) == dump("x" * 5000)
    with pytest.raises(DecodingError, match="more than 5002"):
        Payloads([ZlibCodec()], ValueLimits(size=5002)).unwrap(WRAPPED)
    bomb = PAYLOADS.wrap(bytes(50 * 1024 * 1024))
    with pytest.raises(DecodingError, match="expand"):
        PAYLOADS.unwrap(bomb)


@given(st.integers(0, len(WRAPPED) - 1), st.integers(1, 255))
def test_a_cut_or_flipped_payload_is_refused(place: int, flip: int) -> None:
    with pytest.raises(DecodingError):
        load(PAYLOADS.unwrap(WRAPPED[:place]))
    flipped = WRAPPED[:place] + bytes([WRAPPED[place] ^ flip]) + WRAPPED[place + 1 :]
    try:
        value = load(PAYLOADS.unwrap(flipped))
    except DecodingError:
        return
    assert value == "x" * 5000  # a bit of the compressor's own that changes nothing


@pytest.mark.parametrize(
    "damaged",
    [
        "d9740782",
        "d974078201",
        "d974078201" + "4100",
        "d9740782647a6c6962" + "6100",
        "d9740782647a6c6962" + "4100" + "00",
        "d9740782647a6c6962" + "580100",
        "d9740782647a6c6962" + "5f4100ff",
    ],
)
def test_a_malformed_pair_is_refused(damaged: str) -> None:
    with pytest.raises(DecodingError):
        PAYLOADS.unwrap(bytes.fromhex(damaged))


def test_bytes_after_the_compressed_ones_are_refused() -> None:
    codec = ZlibCodec()
    with pytest.raises(ValueError, match="follows"):
        codec.decode(codec.encode(b"abc") + b"x", 100)
