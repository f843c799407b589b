"""Compression and encryption of values, each bound to its place."""

from __future__ import annotations

import zlib

import cbor2
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec import sealing
from tenuto.codec.sealing import LARGEST, Compression, Encryption, Place, is_sealed
from tenuto.codec.values import dump
from tenuto.errors import ConfigError, DecodingError

HERE = Place("store", "row", "run", b"\x15\x01")
KEY, OTHER = b"k" * 32, b"o" * 32
SECRET = dump("a value nobody may see")


@given(data=st.binary(max_size=4096), travels=st.booleans())
def test_what_is_sealed_can_be_opened_at_its_place(data: bytes, travels: bool) -> None:
    codec = Encryption({"one": KEY})
    stored = codec.seal(data, HERE, travels=travels)
    assert codec.open(stored, HERE) == data
    assert codec.origin(stored) == (HERE._replace(store="") if travels else None)
    assert is_sealed(stored)


def test_nothing_of_a_value_shows_and_no_two_seals_are_equal() -> None:
    codec = Encryption({"one": KEY})
    first, second = codec.seal(SECRET, HERE), codec.seal(SECRET, HERE)
    assert first != second
    assert b"nobody" not in first + second


@pytest.mark.parametrize(
    "elsewhere",
    [
        HERE._replace(store="copy"),
        HERE._replace(kind="mail"),
        HERE._replace(owner="another run"),
        HERE._replace(key=b"\x15\x02"),
        Place("store", "row", "ru", b"n\x15\x01"),
    ],
)
def test_a_value_that_was_moved_cannot_be_opened(elsewhere: Place) -> None:
    codec = Encryption({"one": KEY})
    with pytest.raises(DecodingError, match="moved"):
        codec.open(codec.seal(SECRET, HERE), elsewhere)


@given(at=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_a_value_that_was_changed_in_one_bit_cannot_be_opened(at: int, bit: int) -> None:
    codec = Encryption({"one": KEY})
    stored = bytearray(codec.seal(SECRET, HERE))
    stored[at % len(stored)] ^= 1 << bit
    with pytest.raises(DecodingError):
        codec.open(bytes(stored), HERE)


@given(data=st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_and_not_taken_for_a_value(data: bytes) -> None:
    with pytest.raises(DecodingError):
        Encryption({"one": KEY}).open(data, HERE)


def test_keys_are_rotated_by_adding_a_new_one() -> None:
    old = Encryption({"2025": OTHER})
    stored = old.seal(SECRET, HERE)
    new = Encryption({"2025": OTHER, "2026": KEY})
    assert new.open(stored, HERE) == SECRET
    with pytest.raises(DecodingError, match="no encryption key '2026'"):
        old.open(new.seal(SECRET, HERE), HERE)
    back = Encryption({"2025": OTHER, "2026": KEY}, "2025")
    assert old.open(back.seal(SECRET, HERE), HERE) == SECRET


def test_another_key_under_the_same_id_opens_nothing() -> None:
    stored = Encryption({"one": KEY}).seal(SECRET, HERE)
    with pytest.raises(DecodingError):
        Encryption({"one": OTHER}).open(stored, HERE)


def test_values_from_before_are_read_only_where_that_is_asked() -> None:
    with pytest.raises(DecodingError, match="not encrypted"):
        Encryption({"one": KEY}).open(SECRET, HERE)
    assert Encryption({"one": KEY}, accept_plain=True).open(SECRET, HERE) == SECRET


def test_values_are_compressed_before_they_are_encrypted() -> None:
    long = dump("x" * 100_000)
    assert len(Encryption({"one": KEY}).seal(long, HERE)) < 1_000
    assert len(Encryption({"one": KEY}, compress=False).seal(long, HERE)) > 100_000


def test_a_value_that_would_expand_beyond_the_limit_is_refused() -> None:
    codec = Encryption({"one": KEY})
    bomb = b"\x01" + zlib.compress(b"\0" * (LARGEST + 1))
    nonce = b"n" * 12
    hidden = AESGCM(KEY).encrypt(nonce, bomb, HERE.encoded())
    name = cbor2.dumps("aes-gcm")
    whole = codec.seal(b"", HERE)
    head = whole[: whole.index(name) + len(name)]
    with pytest.raises(DecodingError, match="expand"):
        codec.open(head + cbor2.dumps(cbor2.dumps(["one", nonce, hidden])), HERE)


@pytest.mark.parametrize("keys", [{}, {"short": b"k" * 16}, {"text": "k" * 32}])
def test_keys_that_are_none_are_refused_without_being_shown(keys: dict[str, bytes]) -> None:
    with pytest.raises(ConfigError) as refused:
        Encryption(keys)
    assert "kkkk" not in str(refused.value)


def test_the_current_key_must_be_there_and_keys_are_never_shown() -> None:
    with pytest.raises(ConfigError, match="'two'"):
        Encryption({"one": KEY}, "two")
    assert repr(Encryption({"one": KEY})) == "<Encryption with keys one>"
    assert len(Encryption.new_key()) == 32
    assert Encryption.new_key() != Encryption.new_key()


def test_compression_makes_long_values_shorter_and_leaves_the_rest() -> None:
    codec = Compression()
    long = dump("x" * 100_000)
    stored = codec.seal(long, HERE)
    assert len(stored) < 1_000
    assert codec.open(stored, HERE) == long
    assert codec.open(SECRET, HERE) == codec.seal(SECRET, HERE) == SECRET
    assert codec.origin(stored) is None


def test_a_key_that_has_sealed_what_it_is_good_for_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert sealing.VALUES_PER_KEY == 2**32  # as docs/howto/encryption.md says
    monkeypatch.setattr(sealing, "VALUES_PER_KEY", 4)
    codec = Encryption({"2026": KEY})
    said: list[int] = []
    for _ in range(6):
        codec.seal(SECRET, HERE)
        said.append(len(caplog.records))
    assert said == [0, 1, 1, 2, 2, 2]
    assert "sealed 4 values with key '2026', which is good for 4: add a new key" in caplog.text
