"""User values as bytes and back: CBOR with a closed list of types.

Rules:

1. `load(dump(x))` has the value and the exact types of `x`, in any process, or `dump` raises. Never pickle.
2. `dump` raises `EncodingError` (what has no form, with its path) or `LimitError`; `load` raises `DecodingError`.
3. Plain values go through `cbor2`; everything else through `writing` and `reading`, which define the format. The short
   cut on reading counts only if the result encodes to the very same bytes, so it accepts nothing they would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import IO, Any, Final, cast

import cbor2

from tenuto.codec import tags
from tenuto.codec.crowds import MOST, crowd_of
from tenuto.codec.frames import GIVE_IT, described
from tenuto.codec.limits import DEFAULT_LIMITS, IN_FORCE, ValueLimits
from tenuto.codec.reading import read
from tenuto.codec.refusal import Refused, is_dict
from tenuto.codec.writing import SCALARS, Writer, too_deep
from tenuto.errors import DecodingError, EncodingError, LimitError

__all__ = ["DEFAULT_LIMITS", "ValueLimits", "dump", "dump_call", "dump_error", "dump_plain_call", "dump_result", "load"]

_CONTAINERS: Final = frozenset({list, dict})
# Up to so many items our own writer is faster than the look that cbor2 needs.
_SMALL: Final = 4
# The first bytes of short arrays and maps: how many items follow.
_HEADED: Final = 24
_ARRAYS: Final = tuple(bytes((0x80 + count,)) for count in range(_HEADED))
_MAPS: Final = tuple(bytes((0xA0 + count,)) for count in range(_HEADED))
_PAIR: Final = _ARRAYS[2]
_TEXTS: Final = tuple(bytes((0x60 + size,)) for size in range(_HEADED))
_AT_HAND: Final = 256
_NUMBERS: Final = tuple(cbor2.dumps(number) for number in range(_AT_HAND))
_NAMED_CALLS: Final = tuple(_PAIR + _ARRAYS[0] + head for head in _MAPS)
# What most steps return: nothing, yes or no, a small number.
_ONE_BYTE: Final = {cbor2.dumps(value): value for value in (None, False, True, *range(24))}
# The heads of what a class of the user's has a say in: members of enums, objects, exceptions, definitions, classes.
_OF_CLASSES: Final = re.compile(
    b"|".join(
        re.escape(bytes((0xD9, *tag.to_bytes(2, "big"))))
        for tag in (tags.ENUM, tags.OBJECT, tags.EXCEPTION, tags.DEFINITION, tags.CLASS)
    )
)
# Below this size our own reader is faster than cbor2 and the check of what it gave.
_SHORT_CUT_BYTES: Final = 128
# Above it maps with other keys than texts are read by our own reader: it counts equal hashes before it builds them.
_FEW_BYTES: Final = 4096
# Containers with more members are written piece by piece, which costs as much as some hundred of them.
_STREAMED: Final = 512


def dump(value: Any, limits: ValueLimits | None = None) -> bytes:
    """The bytes of a value; by default within the limits that are in force where it is called."""
    if limits is None:
        limits = IN_FORCE.get()
    try:
        if type(value) in SCALARS:
            data = _scalar(value, limits.size)
        elif type(value) in _CONTAINERS and len(value) > _SMALL and _is_plain(value, limits.size, limits.depth):
            data = cbor2.dumps(value) if len(value) <= _STREAMED else _Bounded(limits.size).dump(value)
        else:
            data = _write(value, limits)
    except UnicodeEncodeError:
        data = _write(value, limits)  # raises, and says where
    if len(data) > limits.size:
        raise LimitError("encoded value", limits.size, len(data))
    return data


class _Bounded:
    """Where cbor2 writes a large container to, piece by piece: too much is refused before all of it is copied."""

    __slots__ = ("_left", "_parts", "_size")

    def __init__(self, size: int) -> None:
        self._parts: list[bytes] = []
        self._size = self._left = size

    def dump(self, value: Any) -> bytes:
        cbor2.dump(value, cast("IO[bytes]", self))
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def write(self, data: bytes) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise LimitError("encoded value", self._size, self._size - self._left)
        self._parts.append(data)
        return len(data)


def _scalar(value: Any, size: int) -> bytes:
    """The bytes of an exact plain value. The shortest ones are at hand: calling cbor2 takes three times as long.

    What is larger than `size` is refused before it is copied.
    """
    if type(value) is int:
        if 0 <= value < _AT_HAND:
            return _NUMBERS[value]
    elif type(value) is str and len(value) < _HEADED and value.isascii():
        return _TEXTS[len(value)] + value.encode()
    elif (type(value) is str or type(value) is bytes) and len(value) > size:
        raise LimitError("encoded value", size, len(value))
    return cbor2.dumps(value)


def dump_plain_call(names: Sequence[bytes], values: Sequence[Any]) -> bytes:
    """The bytes of a call with these arguments, all by name: few, and scalars. The names are encoded already."""
    parts = [_NAMED_CALLS[len(values)]]
    size = IN_FORCE.get().size
    for name, value in zip(names, values, strict=False):
        parts += (name, _scalar(value, size))
    return b"".join(parts)


def dump_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """The bytes of `[args, kwargs]`, as `dump` gives them; shorter where all of them are plain, as most calls are."""
    if (
        len(args) < _HEADED
        and len(kwargs) < _HEADED
        and SCALARS.issuperset(map(type, args))
        and SCALARS.issuperset(map(type, kwargs.values()))
    ):
        # Put together by hand: for containers cbor2 looks whether they contain themselves.
        most = IN_FORCE.get().size
        try:
            parts = [_PAIR, _ARRAYS[len(args)], *[_scalar(value, most) for value in args], _MAPS[len(kwargs)]]
            for name, value in kwargs.items():
                parts += (_name(name), _scalar(value, most))
            data = b"".join(parts)
        except UnicodeEncodeError:
            data = b""  # said below, with the place
        if data and len(data) <= most:
            return data
    return dump([list(args), dict(kwargs)])


@lru_cache(maxsize=1024)  # of parameters: few, and each in every call
def _name(name: str) -> bytes:
    return cbor2.dumps(name)


def dump_result(value: Any) -> bytes:
    """The bytes of a value while it is at hand: refused with `EncodingError` also if `load` would refuse them.

    What has no classes in it can always be read back, and costs a look.
    """
    data = dump(value)
    if type(value) not in SCALARS and _OF_CLASSES.search(data) is not None:
        try:
            load(data)
        except DecodingError as error:
            why = f"it could be written but not read back: {error.why}"
            raise EncodingError(error.path, error.type_name, why) from error.__cause__
    return data


def dump_error(error: BaseException, limits: ValueLimits = DEFAULT_LIMITS) -> bytes:
    """The bytes of an exception. Never refused: what cannot be encoded or is too much is left out."""
    return _write(error, limits)


def load(data: bytes, limits: ValueLimits = DEFAULT_LIMITS) -> Any:
    """The value of these bytes."""
    if data in _ONE_BYTE:
        return _ONE_BYTE[data]
    if len(data) > _SHORT_CUT_BYTES:
        value = _load_plain(data, limits)
        if value is not _NOT_PLAIN:
            return value
    try:
        return read(data, limits.depth)
    except Refused as refused:
        how = described(data)
        if how is not None:  # nobody has opened it, because there is no codec here
            why = f"{refused.why}: the value is {how}, which is not given here"
            raise DecodingError(refused.path, "encrypted", why, GIVE_IT) from None
        error = DecodingError(refused.path, refused.type_name, refused.why, refused.fix or "restore the value")
        raise error from refused.__cause__


def _write(value: Any, limits: ValueLimits) -> bytes:
    writer = Writer(limits)
    try:
        writer.value(value)
    except Refused as refused:
        raise EncodingError(refused.path, refused.type_name, refused.why, refused.fix) from refused.__cause__
    return bytes(writer.out)


def _is_plain(value: Any, items: int, depth: int) -> bool:
    """Whether a value is made of exact plain types only, so that cbor2 writes the same as we would.

    Goes level by level, so that depth and the number of items are limits here already: a value that contains itself
    would otherwise keep us for ever.
    """
    level: list[Any] = [value]
    left = items
    for _ in range(depth):
        below: list[Any] = []
        for container in level:
            members: Collection[Any] = container
            if is_dict(container):
                if not SCALARS.issuperset(map(type, members)) or (len(container) > MOST and crowd_of(container)):
                    return False
                members = container.values()
            elif type(container) is not list:
                return False
            left -= len(members)
            if left < 0:
                raise LimitError("encoded value", items, items - left)
            if not SCALARS.issuperset(map(type, members)):
                below += [member for member in members if type(member) not in SCALARS]
        if not below:
            return True
        level = below
    if any(type(container) not in (list, dict) for container in level):
        return False
    raise too_deep(depth, depth + 1)


_NOT_PLAIN: Final = object()


def _refuse_tag(_content: Any, _immutable: bool) -> Any:
    raise ValueError("not plain")


# What cbor2 would otherwise read by itself; large integers (2, 3) it may. References (25, 28, 29, 256) most of all: a
# few bytes of them can stand for more than memory holds.
_REFUSED_TAGS: Final[dict[int, cbor2.SemanticDecoderCallback]] = dict.fromkeys(
    (0, 1, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799), _refuse_tag
)


def _load_plain(data: bytes, limits: ValueLimits) -> Any:
    try:
        value = cbor2.loads(
            data,
            semantic_decoders=_REFUSED_TAGS,
            tag_hook=_refuse_tag,
            max_depth=limits.depth,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=len(data) > _FEW_BYTES,
        )
        plain = type(value) in SCALARS or _is_plain(value, len(data), limits.depth)
        return value if plain and cbor2.dumps(value) == data else _NOT_PLAIN
    except (cbor2.CBORError, LimitError):
        return _NOT_PLAIN
