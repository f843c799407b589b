"""Metadata, mail, updates, counters and names as versioned BARE; entries are in `entries`.

Rules: as for entries. Two bytes of version, then the fields in the order of `kernel.records`; a name has no version.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from tenuto.codec.bare import (
    VERSION,
    Reader,
    refuse_version,
    write_data,
    write_optional,
    write_text,
    write_u32,
    write_u64,
    write_uint,
)
from tenuto.codec.entries import decode_entry, encode_entry
from tenuto.kernel.records import (
    Cancel,
    Counters,
    Mail,
    MailKind,
    Metadata,
    Rollback,
    Update,
    UpdateStatus,
)

__all__ = [
    "VERSION",
    "decode_counters",
    "decode_entry",
    "decode_mail",
    "decode_metadata",
    "decode_name",
    "decode_update",
    "encode_counters",
    "encode_entry",
    "encode_mail",
    "encode_metadata",
    "encode_name",
    "encode_update",
]

_COUNTERS: Final = Struct("<HQIIIB")  # version, started_at, generation, rewinds, logic; no cancel
_VERSION_BYTES: Final = VERSION.to_bytes(2, "little")
_MAIL_KINDS: Final = tuple(MailKind)
_UPDATE_STATUSES: Final = tuple(UpdateStatus)  # numbered from 1


def _open(data: bytes) -> Reader:
    reader = Reader(data)
    version = reader.u16()
    if version != VERSION:
        refuse_version(version)
    return reader


def encode_metadata(metadata: Metadata) -> bytes:
    return (
        _VERSION_BYTES
        + write_u32(metadata.attempts)
        + write_u64(metadata.last_at)
        + write_optional(metadata.retry_at, write_u64)
        + write_optional(metadata.error, write_data)
        + write_optional(metadata.rollback, _write_rollback)
    )


def decode_metadata(data: bytes) -> Metadata:
    reader = _open(data)
    metadata = Metadata(
        reader.u32(),
        reader.u64(),
        reader.optional(reader.u64),
        reader.optional(reader.data),
        reader.optional(lambda: _read_rollback(reader)),
    )
    reader.end()
    return metadata


def _write_rollback(rollback: Rollback) -> bytes:
    return (
        write_u32(rollback.attempts)
        + write_optional(rollback.retry_at, write_u64)
        + write_optional(rollback.done_at, write_u64)
        + write_optional(rollback.error, write_data)
    )


def _read_rollback(reader: Reader) -> Rollback:
    return Rollback(
        reader.u32(), reader.optional(reader.u64), reader.optional(reader.u64), reader.optional(reader.data)
    )


def encode_mail(mail: Mail) -> bytes:
    return (
        _VERSION_BYTES
        + write_uint(mail.kind)
        + write_text(mail.name)
        + write_optional(mail.ref, write_text)
        + write_optional(mail.payload, write_data)
        + write_optional(mail.error, write_data)
        + write_u32(mail.attempts)
        + write_u64(mail.sent_at)
    )


def decode_mail(data: bytes) -> Mail:
    reader = _open(data)
    mail = Mail(
        reader.enum(_MAIL_KINDS),
        reader.text(),
        reader.optional(reader.text),
        reader.optional(reader.data),
        reader.optional(reader.data),
        reader.u32(),
        reader.u64(),
    )
    reader.end()
    return mail


def encode_update(update: Update) -> bytes:
    return (
        _VERSION_BYTES
        + write_u64(update.seq)
        + write_u64(update.at)
        + write_text(update.name)
        + write_data(update.args)
        + write_uint(update.status)
        + write_optional(update.result, write_data)
        + write_optional(update.error, write_data)
    )


def decode_update(data: bytes) -> Update:
    reader = _open(data)
    update = Update(
        reader.u64(),
        reader.u64(),
        reader.text(),
        reader.data(),
        reader.enum(_UPDATE_STATUSES, first=1),
        reader.optional(reader.data),
        reader.optional(reader.data),
    )
    reader.end()
    return update


def encode_counters(counters: Counters) -> bytes:
    if counters.cancel is None:  # as of every run but those that were asked to stop
        return _COUNTERS.pack(VERSION, *counters[:4], 0)
    return (
        _VERSION_BYTES
        + write_u64(counters.started_at)
        + write_u32(counters.generation)
        + write_u32(counters.rewinds)
        + write_u32(counters.logic)
        + write_optional(counters.cancel, _write_cancel)
    )


def decode_counters(data: bytes) -> Counters:
    if len(data) == _COUNTERS.size:
        version, started_at, generation, rewinds, logic, cancelled = _COUNTERS.unpack(data)
        if version == VERSION and not cancelled:
            return Counters(started_at, generation, rewinds, logic)
    reader = _open(data)
    counters = Counters(
        reader.u64(), reader.u32(), reader.u32(), reader.u32(), reader.optional(lambda: _read_cancel(reader))
    )
    reader.end()
    return counters


def _write_cancel(cancel: Cancel) -> bytes:
    return (
        write_u64(cancel.seq)
        + write_u64(cancel.at)
        + write_optional(cancel.reason, write_text)
        + write_optional(cancel.deadline, write_u64)
    )


def _read_cancel(reader: Reader) -> Cancel:
    return Cancel(reader.u64(), reader.u64(), reader.optional(reader.text), reader.optional(reader.u64))


@lru_cache(maxsize=1024)  # of steps and the like: few, and the same ones in every run
def encode_name(name: str) -> bytes:
    return write_text(name)


@lru_cache(maxsize=1024)
def decode_name(data: bytes) -> str:
    reader = Reader(data)
    name = reader.text()
    reader.end()
    return name
