"""Entries as versioned BARE: the rows of a run's history.

Rules:

1. A header of one layout (version, seq, at, began, flags, kind), then the fields of the kind.
2. Any change of the schema, a new kind or flag included, is a new version; every released version stays readable.
3. Reading is strict: what this release does not know, or cannot account for to the last byte, is `RecordError`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, TypeAlias, cast

from tenuto.codec.bare import (
    VERSION,
    Reader,
    refuse,
    refuse_version,
    write_data,
    write_list,
    write_optional,
    write_text,
    write_u32,
    write_u64,
    write_uint,
)
from tenuto.kernel.records import (
    Branch,
    BranchStatus,
    Checkpoint,
    Child,
    ChildMode,
    Entry,
    Flag,
    Join,
    JoinMode,
    Kind,
    Loop,
    Message,
    Patch,
    PatchMark,
    Race,
    Removed,
    SideEffect,
    Sleep,
    Step,
    StepStatus,
    Taken,
)

__all__ = ["decode_any_entry", "decode_entry", "encode_entry"]

_HEADER: Final = Struct("<HQQQBB")  # version, seq, at, began, flags, tag of the kind
_ALL_FLAGS: Final = Flag.ALL

# Enum members by number: a tuple is read in a fraction of the time a call of the class takes.
_STEP_STATUSES: Final = tuple(StepStatus)
_JOIN_MODES: Final = tuple(JoinMode)
_BRANCH_STATUSES: Final = tuple(BranchStatus)
_PATCH_MARKS: Final = tuple(PatchMark)
_CHILD_MODES: Final = tuple(ChildMode)

_COMPLETED: Final = StepStatus.COMPLETED
_COMPLETED_NUMBER: Final = int(StepStatus.COMPLETED)

# Builds a named tuple in half the time that calling its class takes.
_make_step = cast("Callable[[type[Step], tuple[object, ...]], Step]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_make_entry = cast("Callable[[type[Entry], tuple[object, ...]], Entry]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


# The row nearly every history is made of is a completed step with a short output: its fixed part is one layout, the
# header and then status, "there is an output", the output's length. What follows is one of these two tails.
_PLAIN: Final = Struct("<HQQQBBBBB")
_AT_OUTPUT: Final = _PLAIN.size
_SHORT: Final = 0x80  # lengths below it take one byte
_NOTHING_ELSE: Final = b"\x00\x00\x00"  # no error, no undo, no input
_ONLY_INPUT: Final = b"\x00\x00\x01"
_ONLY_SHORT_INPUT: Final = tuple(_ONLY_INPUT + bytes((size,)) for size in range(_SHORT))


def encode_entry(entry: Entry) -> bytes:
    seq, at, began, flags, kind = entry
    if type(kind) is Step:
        status, output, error, undo, called = kind
        if status is _COMPLETED and output is not None and error is None and undo is None and called is not None:
            size, called_size = len(output), len(called)
            if size < _SHORT and called_size < _SHORT:
                plain = _PLAIN.pack(VERSION, seq, at, began, flags, 0, _COMPLETED_NUMBER, 1, size)
                return plain + output + _ONLY_SHORT_INPUT[called_size] + called
    tag, write = _KINDS[type(kind)]
    return _HEADER.pack(VERSION, seq, at, began, flags, tag) + write(kind)


def decode_entry(data: bytes) -> Entry:
    if len(data) >= _AT_OUTPUT:
        version, seq, at, began, flags, tag, status, has_output, size = _PLAIN.unpack_from(data)
        plain = tag == 0 and status == _COMPLETED_NUMBER and has_output == 1 and size < _SHORT
        if plain and version == VERSION and flags <= _ALL_FLAGS:
            end = _AT_OUTPUT + size
            rest = data[end:]
            if rest == _NOTHING_ELSE:
                step = _make_step(Step, (_COMPLETED, data[_AT_OUTPUT:end], None, None, None))
                return _make_entry(Entry, (seq, at, began, flags, step))
            if rest[:3] == _ONLY_INPUT and len(rest) > 3 and rest[3] == len(rest) - 4 < _SHORT:
                step = _make_step(Step, (_COMPLETED, data[_AT_OUTPUT:end], None, None, rest[4:]))
                return _make_entry(Entry, (seq, at, began, flags, step))
    return decode_any_entry(data)


def decode_any_entry(data: bytes) -> Entry:
    """Decode an entry of any layout; `decode_entry` is quicker with those that nearly all have."""
    tag: int
    try:
        version, seq, at, began, flags, tag = _HEADER.unpack_from(data)
    except struct_error:
        refuse("the record of an entry is cut off")
    if version != VERSION:
        refuse_version(version)
    if flags > _ALL_FLAGS:
        refuse(f"an entry has unknown flags {flags:02x}")
    if tag >= len(_READERS):
        refuse(f"an entry is of the unknown kind {tag}")
    reader = Reader(data, _HEADER.size)
    kind = _READERS[tag](reader)
    reader.end()
    return Entry(seq, at, began, flags, kind)


def _write_step(step: Step) -> bytes:
    status, output, error, undo, called = step
    return (
        bytes((status,))
        + write_optional(output, write_data)
        + write_optional(error, write_data)
        + write_optional(undo, write_text)
        + write_optional(called, write_data)
    )


def _read_step(reader: Reader) -> Step:
    return Step(
        reader.enum(_STEP_STATUSES),
        reader.optional(reader.data),
        reader.optional(reader.data),
        reader.optional(reader.text),
        reader.optional(reader.data),
    )


def _write_loop(loop: Loop) -> bytes:
    return (
        write_u32(loop.iteration)
        + write_data(loop.state)
        + write_u32(loop.trimmed)
        + write_u64(loop.since)
        + write_optional(loop.output, write_data)
    )


def _read_loop(reader: Reader) -> Loop:
    return Loop(reader.u32(), reader.data(), reader.u32(), reader.u64(), reader.optional(reader.data))


def _write_sleep(sleep: Sleep) -> bytes:
    return write_u64(sleep.deadline)


def _read_sleep(reader: Reader) -> Sleep:
    return Sleep(reader.u64())


def _write_message(message: Message) -> bytes:
    return (
        write_list(message.names, write_text)
        + write_optional(message.deadline, write_u64)
        + write_optional(message.taken, _write_taken)
    )


def _read_message(reader: Reader) -> Message:
    return Message(reader.list(reader.text), reader.optional(reader.u64), reader.optional(lambda: _read_taken(reader)))


def _write_taken(taken: Taken) -> bytes:
    return write_text(taken.id) + write_text(taken.name) + write_data(taken.payload) + write_u64(taken.sent_at)


def _read_taken(reader: Reader) -> Taken:
    return Taken(reader.text(), reader.text(), reader.data(), reader.u64())


def _write_branch(branch: Branch) -> bytes:
    return write_text(branch.name) + write_uint(branch.status)


def _read_branch(reader: Reader) -> Branch:
    return Branch(reader.text(), reader.enum(_BRANCH_STATUSES))


def _write_join(join: Join) -> bytes:
    return write_uint(join.mode) + write_list(join.branches, _write_branch)


def _read_join(reader: Reader) -> Join:
    return Join(reader.enum(_JOIN_MODES), reader.list(lambda: _read_branch(reader)))


def _write_race(race: Race) -> bytes:
    return write_optional(race.winner, write_text) + write_list(race.branches, _write_branch)


def _read_race(reader: Reader) -> Race:
    return Race(reader.optional(reader.text), reader.list(lambda: _read_branch(reader)))


def _write_removed(removed: Removed) -> bytes:
    return write_text(removed.kind)


def _read_removed(reader: Reader) -> Removed:
    return Removed(reader.text())


def _write_side_effect(effect: SideEffect) -> bytes:
    return write_optional(effect.output, write_data) + write_optional(effect.error, write_data)


def _read_side_effect(reader: Reader) -> SideEffect:
    return SideEffect(reader.optional(reader.data), reader.optional(reader.data))


def _write_patch(patch: Patch) -> bytes:
    return write_uint(patch.mark)


def _read_patch(reader: Reader) -> Patch:
    return Patch(reader.enum(_PATCH_MARKS))


def _write_child(child: Child) -> bytes:
    return (
        write_uint(child.mode)
        + write_u64(child.accepted)
        + write_text(child.run)
        + write_text(child.target)
        + write_optional(child.output, write_data)
        + write_optional(child.error, write_data)
    )


def _read_child(reader: Reader) -> Child:
    return Child(
        reader.enum(_CHILD_MODES),
        reader.u64(),
        reader.text(),
        reader.text(),
        reader.optional(reader.data),
        reader.optional(reader.data),
    )


def _write_checkpoint(_: Checkpoint) -> bytes:
    return b""


def _read_checkpoint(_: Reader) -> Checkpoint:
    return Checkpoint()


# In the order of their tags: the place in this table is the stored number.
_Form: TypeAlias = tuple[type[Kind], Callable[[Any], bytes], Callable[[Reader], Kind]]
_TABLE: Final[list[_Form]] = [
    (Step, _write_step, _read_step),
    (Loop, _write_loop, _read_loop),
    (Sleep, _write_sleep, _read_sleep),
    (Message, _write_message, _read_message),
    (Join, _write_join, _read_join),
    (Race, _write_race, _read_race),
    (Removed, _write_removed, _read_removed),
    (SideEffect, _write_side_effect, _read_side_effect),
    (Patch, _write_patch, _read_patch),
    (Child, _write_child, _read_child),
    (Checkpoint, _write_checkpoint, _read_checkpoint),
]
_KINDS: Final = {kind: (tag, write) for tag, (kind, write, _) in enumerate(_TABLE)}
_READERS: Final = [read for _, _, read in _TABLE]
