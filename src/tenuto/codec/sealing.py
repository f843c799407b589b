"""Values as a store may see them: compressed, or compressed and encrypted.

Rules:

1. A value is sealed as it leaves the host for the store and opened as it comes back; the kernel never sees the
   difference, so the same facts give the same turn (P7).
2. A value is bound to its place: the store, what it belongs to, and its key there. Moved or swapped, it cannot be
   opened.
3. Results travel: the store itself hands the result of a task, or of a run, to those who wait for it. They say where
   they come from, and are bound to that.
4. Compression comes first, because what is encrypted cannot be compressed; expanding stops at a limit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

import cbor2

from tenuto.codec.frames import AES_GCM, GIVE_IT, framed, mark, parts_of, read_frame
from tenuto.codec.limits import DEFAULT_LIMITS
from tenuto.codec.payload import Payloads, ZlibCodec
from tenuto.errors import ConfigError, DecodingError

__all__ = ["Codec", "Compression", "Encryption", "Place", "is_sealed"]

_MARK: Final = mark(AES_GCM)
LARGEST: Final = 32 * 1024 * 1024  # what a row may expand to; it may hold a few values
NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32
VALUES_PER_KEY: Final = 2**32  # with random nonces of 96 bits; beyond it two of them may be equal
log = logging.getLogger("tenuto.codec")
_PLAIN, _COMPRESSED = b"\x00", b"\x01"


class Place(NamedTuple):
    """Where a value belongs: in which store, to what, and under which key there."""

    store: str
    kind: str  # row, mail, task, …
    owner: str  # a run's id, a task's, a schedule's name
    key: bytes = b""

    def encoded(self) -> bytes:
        return cbor2.dumps(list(self))


class Codec(Protocol):
    """What `Tenuto(codec=)` takes."""

    def seal(self, data: bytes, place: Place, *, travels: bool = False) -> bytes:
        """What the store gets. `travels`: it says itself where it belongs."""
        ...

    def open(self, stored: bytes, place: Place) -> bytes:
        """What was sealed; `DecodingError` if it was not, by this codec, for this place."""
        ...

    def origin(self, stored: bytes) -> Place | None:
        """Where a value that travels says it belongs. Opening it there shows whether that is true."""
        ...


class Compression:
    """Makes large values smaller. Nothing is hidden.

    `Tenuto(codec=Compression())`. Values shorter than `from_bytes` stay as they are; so does what was stored before.
    """

    def __init__(self, level: int = 6, *, from_bytes: int = 1024) -> None:
        limits = type(DEFAULT_LIMITS)(size=LARGEST)
        self._payloads = Payloads([ZlibCodec(level)], limits, from_bytes)

    def seal(self, data: bytes, place: Place, *, travels: bool = False) -> bytes:
        """The value, shorter if that is possible."""
        return self._payloads.wrap(data)

    def open(self, stored: bytes, place: Place) -> bytes:
        """The value as it was."""
        return self._payloads.unwrap(stored)

    def origin(self, stored: bytes) -> Place | None:
        """Compressed values belong wherever they are."""
        return None


class Encryption:
    """Compresses values and encrypts them with AES-GCM (256 bits), each with a nonce of its own.

        Tenuto(codec=Encryption({"2026": key}))

    `keys`: all keys that stored values may need, by an id that is stored with them; new values get the one called
    `current`, by default the last. Made by `Encryption.new_key()`. With `accept_plain` values that were stored before
    encryption was switched on can be read; without it a value that is not encrypted is refused.
    """

    def __init__(
        self,
        keys: Mapping[str, bytes],
        current: str | None = None,
        *,
        compress: bool = True,
        accept_plain: bool = False,
    ) -> None:
        if not keys:
            raise ConfigError("encryption needs at least one key; Encryption.new_key() makes one")
        for key_id, key in keys.items():
            if type(key) is not bytes or len(key) != KEY_BYTES:
                # Without the key itself, which must not get into a log.
                raise ConfigError(f"encryption key {key_id!r} is not {KEY_BYTES} bytes; Encryption.new_key() makes one")
        self._current = current if current is not None else list(keys)[-1]
        if self._current not in keys:
            raise ConfigError(f"there is no encryption key {self._current!r} among {', '.join(map(repr, keys))}")
        self._ciphers = {key_id: _cipher(key) for key_id, key in keys.items()}
        self._sealed = count(1)  # values this process has sealed with the current key
        self._zlib = ZlibCodec() if compress else None
        self._accept_plain = accept_plain

    @staticmethod
    def new_key() -> bytes:
        """A key from the operating system. Keep it outside of the database; without it nothing can be read."""
        return os.urandom(KEY_BYTES)

    def __repr__(self) -> str:
        return f"<Encryption with keys {', '.join(self._ciphers)}>"

    def seal(self, data: bytes, place: Place, *, travels: bool = False) -> bytes:
        """The value, to be opened only with the key and for this place."""
        number = next(self._sealed)
        if number in (VALUES_PER_KEY // 2, VALUES_PER_KEY):
            log.warning(
                "this process alone has sealed %s values with key %r, which is good for %s: add a new key",
                f"{number:,}",
                self._current,
                f"{VALUES_PER_KEY:,}",
            )
        nonce = os.urandom(NONCE_BYTES)
        hidden = self._ciphers[self._current].encrypt(nonce, self._shortened(data), place.encoded())
        parts: list[Any] = [self._current, nonce, hidden]
        if travels:
            parts.append(list(place[1:]))
        return framed(AES_GCM, cbor2.dumps(parts))

    def _shortened(self, data: bytes) -> bytes:
        if self._zlib is not None:
            shorter = self._zlib.encode(data)
            if len(shorter) < len(data):
                return _COMPRESSED + shorter
        return _PLAIN + data

    def open(self, stored: bytes, place: Place) -> bytes:
        """The value; `DecodingError` if the key is missing, the value damaged, moved, or not encrypted."""
        if not stored.startswith(_MARK):
            if self._accept_plain:
                return stored
            raise _refused(place, "it is not encrypted", "Encryption(…, accept_plain=True) while old values are around")
        key_id, nonce, hidden, _ = _parts(stored, place)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            why = f"it is sealed by key {key_id!r}, and there is no encryption key {key_id!r} here"
            raise _refused(place, why, GIVE_IT)
        from cryptography.exceptions import InvalidTag

        try:
            data = cipher.decrypt(nonce, hidden, place.encoded())
        except InvalidTag:
            why = (
                f"it says sealed by key {key_id!r}, but was sealed by another key, changed, or moved from another place"
            )
            raise _refused(place, why, GIVE_IT) from None
        return self._lengthened(data, place)

    def _lengthened(self, data: bytes, place: Place) -> bytes:
        if data[:1] == _PLAIN:
            return data[1:]
        try:
            return ZlibCodec().decode(data[1:], LARGEST)
        except ValueError as error:
            raise _refused(place, str(error)) from None

    def origin(self, stored: bytes) -> Place | None:
        """Where a result comes from; None for a value that says nothing."""
        if not stored.startswith(_MARK):
            return None
        return _parts(stored, Place("", "result", ""))[3]


def is_sealed(stored: bytes) -> bool:
    """Whether a value is encrypted."""
    return stored.startswith(_MARK)


def _parts(stored: bytes, place: Place) -> tuple[str, bytes, bytes, Place | None]:
    """Key, nonce, hidden bytes and origin. Nobody has vouched for these bytes yet."""
    try:
        found = parts_of(stored)
        parts = None if found is None else read_frame(found[1])
    except ValueError:
        parts = None
    match parts:
        case [str(key_id), bytes(nonce), bytes(hidden)] if len(nonce) == NONCE_BYTES:
            return key_id, nonce, hidden, None
        case [str(key_id), bytes(nonce), bytes(hidden), [str(kind), str(owner), bytes(key)]] if (
            len(nonce) == NONCE_BYTES
        ):
            return key_id, nonce, hidden, Place("", kind, owner, key)
        case _:
            raise _refused(place, "it is malformed")


def _refused(place: Place, why: str, fix: str | None = None) -> DecodingError:
    what = f"the {place.kind} of {place.owner}" if place.owner else f"a {place.kind}"
    return DecodingError("$", "encrypted", f"{what} cannot be read: {why}", *([] if fix is None else [fix]))


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as missing:
        raise ConfigError("encryption needs cryptography: pip install 'cryptography'") from missing
    return AESGCM(key)
