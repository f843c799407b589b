"""A run's batches as rows, and its rows as what the kernel loads.

Rules:

1. Keys carry no run id; a name is stored once, as row `(1, i)`, and locations hold its index.
2. A name gets its index when the first row using it is encoded, in the same batch. One encoder per loaded run.
3. An entry's id is derived from its history key; it is computed only where metadata says it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Final, NamedTuple, cast

from tenuto.codec import keys
from tenuto.codec.bare import refuse
from tenuto.codec.frames import GIVE_IT, described
from tenuto.codec.keys import INTEGERS, read_integer
from tenuto.codec.records import (
    decode_counters,
    decode_entry,
    decode_mail,
    decode_metadata,
    decode_name,
    decode_update,
    encode_counters,
    encode_entry,
    encode_mail,
    encode_metadata,
    encode_name,
    encode_update,
)
from tenuto.codec.values import load
from tenuto.errors import DecodingError, RecordError
from tenuto.kernel.batch import Batch, Trim
from tenuto.kernel.location import Location, Segment, name_of
from tenuto.kernel.records import Entry, Mail, Metadata, Rows, Update

__all__ = [
    "COUNTERS_KEY",
    "ERROR_KEY",
    "FIRST_INPUT_KEY",
    "INPUT_KEY",
    "METADATA_PREFIX",
    "OUTPUT_KEY",
    "PUBLISHED_KEY",
    "STATE_KEY",
    "VERSION_KEY",
    "EncodedBatch",
    "RunEncoder",
    "decode_rows",
    "entry_id",
    "is_first_input",
    "mail_key",
    "mail_number",
    "metadata_key",
    "update_key",
]

# What a key's first element says.
NAMES, HISTORY, MAIL, SINGLE, METADATA, UPDATES = range(1, 7)
# The second element of the rows there is one of.
STATE, OUTPUT, ERROR, VERSION, INPUT, PUBLISHED, COUNTERS, FIRST_INPUT = range(1, 9)

_HISTORY: Final = keys.pack((HISTORY,))
METADATA_PREFIX: Final = keys.pack((METADATA,))
STATE_KEY, OUTPUT_KEY, ERROR_KEY, VERSION_KEY, INPUT_KEY, PUBLISHED_KEY, COUNTERS_KEY, FIRST_INPUT_KEY = (
    keys.pack((SINGLE, row)) for row in range(STATE, FIRST_INPUT + 1)
)


_SINGLES: Final = {
    STATE_KEY: STATE,
    OUTPUT_KEY: OUTPUT,
    ERROR_KEY: ERROR,
    VERSION_KEY: VERSION,
    INPUT_KEY: INPUT,
    PUBLISHED_KEY: PUBLISHED,
    COUNTERS_KEY: COUNTERS,
    FIRST_INPUT_KEY: FIRST_INPUT,
}


# The keys of a run's first names: of all it has, mostly.
_NAME_KEYS: Final = {keys.pack((NAMES, index)): index for index in range(32)}


class EncodedBatch(NamedTuple):
    """The rows of a batch, to be applied in this order: range deletes (half-open), deletes, puts."""

    range_deletes: tuple[tuple[bytes, bytes], ...]
    deletes: tuple[bytes, ...]
    puts: tuple[tuple[bytes, bytes], ...]


# Builds a named tuple in half the time that calling its class takes.
_make_encoded = cast("Callable[[type[EncodedBatch], tuple[object, ...]], EncodedBatch]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


def entry_id(history_key: bytes) -> str:
    """The id of the entry that is stored under this key."""
    return blake2b(history_key, digest_size=16).hexdigest()


def metadata_key(history_key: bytes) -> bytes:
    """Where the metadata of the entry under this key is stored."""
    return keys.pack((METADATA, entry_id(history_key)))


def mail_key(number: int) -> bytes:
    """Where the mail of this number is stored."""
    return keys.pack((MAIL, f"{number:016x}"))


def mail_number(key: bytes) -> int:
    """The number of the mail that is stored under this key."""
    try:
        return int(key[3:-1], 16)
    except ValueError:
        refuse(f"the key {key.hex()} has no mail number")


def update_key(update_id: str) -> bytes:
    """Where the outcome of this update is stored."""
    return keys.pack((UPDATES, update_id))


class RunEncoder:
    """Makes rows of the batches of one run, and owns the run's names.

    Use one for as long as the run is loaded, and drop it with the run when a commit fails: it has already counted the
    names of the batch it encoded.
    """

    __slots__ = ("_packed",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        # The packed index of each name; a name's index is its place.
        self._packed = {name: _integer(index) for index, name in enumerate(names)}

    def encode(self, batch: Batch) -> EncodedBatch:
        """The rows of a batch, with a row for each name it uses first."""
        puts: list[tuple[bytes, bytes]] = []
        if batch.has_only_entries():  # a step's row: nearly every batch of a long run
            for location, entry in batch.entries:
                puts.append((self._key(location, puts), encode_entry(entry)))
            return _make_encoded(EncodedBatch, ((), (), tuple(puts)))
        range_deletes = self._range_deletes(batch) if batch.cleared or batch.trims else ()
        deletes = self._deletes(batch)
        if NAMES in batch.cleared:
            self._packed.clear()
        for location, entry in batch.entries:
            puts.append((self._key(location, puts), encode_entry(entry)))
        for location, metadata in batch.metadata:
            puts.append((metadata_key(self._key(location, puts)), encode_metadata(metadata)))
        for number, mail in batch.mail:
            puts.append((mail_key(number), encode_mail(mail)))
        for update_id, update in batch.updates:
            puts.append((update_key(update_id), encode_update(update)))
        _put_singles(batch, puts)
        return EncodedBatch(range_deletes, deletes, tuple(puts))

    def history_key(self, location: Location) -> bytes | None:
        """Where the entry at a location is stored; none if no stored row has used one of its names."""
        for segment in location:
            if name_of(segment) not in self._packed:
                return None
        return self._key(location, [])

    def _key(self, location: Location, puts: list[tuple[bytes, bytes]]) -> bytes:
        key = _HISTORY
        packed = self._packed
        for segment in location:
            if isinstance(segment, str):
                key += packed.get(segment) or self._register(segment, puts)
                continue
            name = packed.get(segment[0]) or self._register(segment[0], puts)
            sort = INTEGERS[segment[2]] if len(segment) == 3 else b""
            key += b"\x05" + name + _integer(segment[1]) + sort + b"\x00"
        return key

    def _register(self, name: str, puts: list[tuple[bytes, bytes]]) -> bytes:
        index = len(self._packed)
        puts.append((keys.pack((NAMES, index)), encode_name(name)))
        element = self._packed[name] = _integer(index)
        return element

    def _range_deletes(self, batch: Batch) -> tuple[tuple[bytes, bytes], ...]:
        ranges = [keys.children((prefix,)) for prefix in batch.cleared]
        ranges += [bounds for trim in batch.trims if (bounds := self._trim_range(trim)) is not None]
        return tuple(ranges)

    def _deletes(self, batch: Batch) -> tuple[bytes, ...]:
        deletes: list[bytes] = []
        # A location whose names were never stored has no row to delete.
        for location in batch.deleted_entries:
            if (key := self.history_key(location)) is not None:
                deletes.append(key)
        for location in batch.deleted_metadata:
            if (key := self.history_key(location)) is not None:
                deletes.append(metadata_key(key))
        for number in batch.deleted_mail:
            deletes.append(mail_key(number))
        if batch.deleted_output:
            deletes.append(OUTPUT_KEY)
        if batch.deleted_error:
            deletes.append(ERROR_KEY)
        return tuple(deletes)

    def _trim_range(self, trim: Trim) -> tuple[bytes, bytes] | None:
        # `(i, n)` sorts before every `(i, n, …)` and below, so two such keys bound the counted segments between them.
        start = self.history_key((*trim.scope, (trim.name, trim.first)))
        end = self.history_key((*trim.scope, (trim.name, trim.last)))
        return None if start is None or end is None else (start, end)


def _integer(value: int) -> bytes:
    return INTEGERS[value] if 0 <= value < len(INTEGERS) else keys.pack((value,))


def _put_singles(batch: Batch, puts: list[tuple[bytes, bytes]]) -> None:
    if batch.state is not None:
        puts.append((STATE_KEY, batch.state.encode()))
    if batch.output is not None:
        puts.append((OUTPUT_KEY, batch.output))
    if batch.error is not None:
        puts.append((ERROR_KEY, batch.error))
    if batch.version is not None:
        puts.append((VERSION_KEY, batch.version.encode()))
    if batch.input is not None:
        puts.append((INPUT_KEY, batch.input))
    if batch.published is not None:
        puts.append((PUBLISHED_KEY, batch.published))
    if batch.counters is not None:
        puts.append((COUNTERS_KEY, encode_counters(batch.counters)))
    if batch.first_input is not None:
        puts.append((FIRST_INPUT_KEY, batch.first_input))


class _RunReader:
    """What has been read of a run so far, row by row in key order."""

    __slots__ = ("decode", "history", "history_keys", "mail", "metadata", "names", "singles", "updates")

    def __init__(self, decode: Callable[[bytes], Entry]) -> None:
        self.decode = decode
        self.names: list[str] = []
        self.history: list[tuple[Location, Entry]] = []
        self.history_keys: list[bytes] = []
        self.singles: dict[int, bytes] = {}
        self.metadata: dict[str, Metadata] = {}
        self.mail: list[tuple[int, Mail]] = []
        self.updates: dict[str, Update] = {}

    def read_all(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        names = self.names
        history = self.history
        history_keys = self.history_keys
        decode = self.decode
        before = b""
        try:
            for key, value in rows:
                if key <= before:
                    refuse("rows are not in key order")
                before = key
                if key[:2] == _HISTORY:
                    history.append((_location(key, names), decode(value)))
                    history_keys.append(key)
                elif (row := _SINGLES.get(key)) is not None:
                    self.singles[row] = value
                elif (index := _NAME_KEYS.get(key)) is not None:
                    self._read_name(index, value)
                else:
                    self._read(key, value)
        except RecordError as error:
            refuse(f"row {before.hex()}: {error.args[0]}")

    def _read(self, key: bytes, value: bytes) -> None:
        """Take a row that is not history."""
        match keys.unpack(key):
            case (1, int(index)):
                self._read_name(index, value)
            case (3, str(number)):
                self.mail.append((_mail_number(number), decode_mail(value)))
            case (5, str(entry)):
                self.metadata[entry] = decode_metadata(value)
            case (6, str(update)):
                self.updates[update] = decode_update(value)
            case unknown:
                refuse(f"a row has the unknown key {unknown!r}")

    def _read_name(self, index: int, value: bytes) -> None:
        name = decode_name(value)
        if index != len(self.names) or name in self.names:
            refuse(f"name {index} ({name!r}) is out of place: names are numbered from 0, each once")
        self.names.append(name)

    def rows(self, run_id: str) -> Rows:
        return Rows(
            run_id=run_id,
            state=self._text(STATE, "state"),
            version=self._text(VERSION, "definition version"),
            input=self._single(INPUT, "input"),
            counters=decode_counters(self._single(COUNTERS, "counters")),
            history=tuple(self.history),
            metadata=self._metadata_by_location(),
            mail=tuple(self.mail),
            updates=self.updates,
            output=self.singles.get(OUTPUT),
            error=self.singles.get(ERROR),
            published=self.singles.get(PUBLISHED),
            first_input=self.singles.get(FIRST_INPUT),
        )

    def _metadata_by_location(self) -> dict[Location, Metadata]:
        if not self.metadata:
            return {}
        places = {entry_id(key): location for key, (location, _) in zip(self.history_keys, self.history, strict=True)}
        try:
            return {places[entry]: metadata for entry, metadata in self.metadata.items()}
        except KeyError as missing:
            refuse(f"there is metadata of entry {missing.args[0]}, which is not there")

    def _single(self, row: int, what: str) -> bytes:
        value = self.singles.get(row)
        if value is None:
            refuse(f"the run has no {what}")
        return value

    def _text(self, row: int, what: str) -> str:
        try:
            return self._single(row, what).decode()
        except UnicodeDecodeError:
            refuse(f"the run's {what} is not UTF-8")


def is_first_input(rows: Mapping[bytes, bytes], call: bytes | None) -> bool:
    """True if a chain of runs began with these encoded arguments. `rows`: those its present run has one of."""
    digest = rows.get(FIRST_INPUT_KEY)
    if digest is None or call is None:  # never continued
        return rows.get(INPUT_KEY) == call
    return bool(load(digest) == sha256(call).digest())


def decode_rows(
    run_id: str, rows: Sequence[tuple[bytes, bytes]], entry: Callable[[bytes], Entry] = decode_entry
) -> tuple[Rows, RunEncoder]:
    """All rows of a run, given in key order, decoded; and an encoder that knows the run's names. `entry`: of a row.

    `RecordError` for what is damaged; `DecodingError` for rows that are sealed, and that nobody has opened.
    """
    reader = _RunReader(entry)
    try:
        reader.read_all(rows)
        return reader.rows(run_id), RunEncoder(reader.names)
    except RecordError as error:
        for _, value in rows:
            if (how := described(value)) is not None:
                why = f"the rows of run {run_id} cannot be read: they are {how}, which is not given here"
                raise DecodingError("$", "encrypted", why, GIVE_IT) from None
        raise RecordError(f"run {run_id}: {error.args[0]}") from None


def _mail_number(written: str) -> int:
    if len(written) != 16 or written.strip("0123456789abcdef"):
        refuse(f"{written!r} is not a mail number")
    return int(written, 16)


def _location(key: bytes, names: list[str]) -> Location:
    segments: list[Segment] = []
    at = len(_HISTORY)
    end = len(key)
    try:
        while at < end:
            if key[at] != 0x05:
                index, at = read_integer(key, at)
                segments.append(names[index])
                continue
            index, at = read_integer(key, at + 1)
            n, at = read_integer(key, at)
            if key[at] == 0:
                segments.append((names[index], n))
            else:
                sort, at = read_integer(key, at)
                if key[at] != 0 or sort > 4:
                    refuse("a segment is malformed")
                segments.append((names[index], n, sort))
            at += 1
    except IndexError:
        refuse("a key is cut off or uses a name that has no row")
    if not segments:
        refuse("an entry has no place")
    return tuple(segments)
