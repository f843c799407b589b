"""Stored values as JSON, without the classes they were made of.

Rules:

1. JSON's own types are themselves; everything else is an object with one `$` key that says what it is. Nothing is lost
   and nothing is loaded: whoever looks at a run need not have its code.
2. A map whose keys are not all texts, or begin with `$`, is `{"$map": [[key, value], …]}`.
3. Bytes that are no stored value are a `DecodingError`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

import cbor2

from tenuto.codec import tags, texts
from tenuto.codec.classes import find_class
from tenuto.codec.frames import GIVE_IT, described
from tenuto.codec.limits import DEFAULT_LIMITS
from tenuto.codec.refusal import Refused, is_list
from tenuto.codec.values import dump_error
from tenuto.errors import DecodingError, TenutoError

__all__ = ["EXACT", "view", "view_error"]

Json: TypeAlias = Any
Pairs: TypeAlias = list[tuple[Any, Any]]

EXACT: Final = 1 << 53  # integers up to here are the same in every reader of JSON
DECIMAL_BITS: Final = 14_000  # beyond, Python refuses to write digits: about 4,200 of them


def view(data: bytes) -> Json:
    """The JSON of a stored value."""
    try:
        return _view(_decoded(data))
    except (Refused, RecursionError, ValueError, TypeError, LookupError, OverflowError) as error:
        how = described(data)
        if how is not None:  # nobody has opened it, because there is no codec here
            why = f"the value is {how}, which is not given here"
            raise DecodingError("$", "encrypted", why, GIVE_IT) from None
        raise DecodingError("$", "", str(error) or "it is malformed", "restore the value") from None


def view_error(error: BaseException) -> Json:
    """The JSON of an exception: type, code, message, traceback, notes, cause, members."""
    return view(dump_error(error))["$error"]


class _Tagged:
    """A tag and its content, and no value yet. Hashed by identity: it may be a key of a map."""

    __slots__ = ("content", "number")

    def __init__(self, number: int, content: Any) -> None:
        self.number = number
        self.content = content


def _decoded(data: bytes) -> Any:
    try:
        return _Reader(data).whole()
    except (IndexError, UnicodeDecodeError):
        raise Refused("bytes are missing") from None


class _Reader:
    """Reads CBOR as it is written here, with maps as lists of pairs and tags as they are."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def whole(self) -> Any:
        value = self._item(DEFAULT_LIMITS.depth * 2)  # a tag and its content are two here, and one level there
        if self._at != len(self._data):
            raise Refused("bytes are left over")
        return value

    def _item(self, room: int) -> Any:
        if room < 0:
            raise Refused("the value is nested too deep")
        first = self._data[self._at]
        major = first >> 5
        if major == 7:
            return self._simple(first)
        number = self._head(first & 0x1F)
        match major:
            case 0:
                return number
            case 1:
                return -1 - number
            case 2:
                return self._take(number)
            case 3:
                return self._take(number).decode()
            case 4:
                self._check(number)
                return [self._item(room - 1) for _ in range(number)]
            case 5:
                self._check(number)
                return _Map([(self._item(room - 1), self._item(room - 1)) for _ in range(number)])
            case _:
                return _Tagged(number, self._item(room - 1))

    def _head(self, info: int) -> int:
        self._at += 1
        if info < 24:
            return info
        if info > 27:
            raise Refused("a length is indefinite or malformed")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _take(self, size: int) -> bytes:
        self._check(size)
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def _check(self, size: int) -> None:
        """Every item takes a byte or more: a lying count is refused before anything is spent on it."""
        if size > len(self._data) - self._at:
            raise Refused("bytes are missing")

    def _simple(self, first: int) -> Any:
        size = {0xF4: 1, 0xF5: 1, 0xF6: 1, 0xF9: 3, 0xFB: 9}.get(first)
        if size is None:
            raise Refused("a number or simple value is not in its stored form")
        return cbor2.loads(self._take(size))


class _Map(Pairs):
    """The pairs of a map, in their order."""


# --- what it looks like


def _view(value: Any) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= EXACT else {"$int": _digits(value)}
        case float():
            plain = math.isfinite(value) and (bool(value) or math.copysign(1, value) > 0)
            return value if plain else {"$float": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case _Map():
            return _view_map(value)
        case list():
            return [_view(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _Tagged():
            show = _TAGS.get(value.number)
            if show is None:
                raise Refused(f"tag {value.number} is not one of ours")
            return show(value.content)
        case _:
            raise Refused(f"a {type(value).__name__} is no stored value")


def _view_map(pairs: Pairs) -> Json:
    if all(type(key) is str and not key.startswith("$") for key, _ in pairs):
        return {key: _view(item) for key, item in pairs}
    return {"$map": [[_view(key), _view(item)] for key, item in pairs]}


def _digits(number: int) -> str:
    return str(number) if number.bit_length() <= DECIMAL_BITS else hex(number)


def _big(content: Any) -> int:
    if type(content) is not bytes:
        _malformed("a large integer")
    return int.from_bytes(content, "big")


def _view_int(number: int) -> Json:
    return {"$int": _digits(number)}


def _view_uuid(content: Any) -> Json:
    if type(content) is not bytes or len(content) != 16:
        _malformed("a UUID")
    text = content.hex()
    return {"$uuid": "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))}


def _view_list(name: str) -> Callable[[Any], Json]:
    def show(content: Any) -> Json:
        return {name: [_view(item) for item in _list(content)]}

    return show


def _view_text(name: str) -> Callable[[Any], Json]:
    def show(content: Any) -> Json:
        return {name: _text(content)}

    return show


def _view_timedelta(content: Any) -> Json:
    value = texts.read_timedelta(dict(_pairs(content)))
    return {"$timedelta": value.total_seconds() if value.microseconds else value.days * 86_400 + value.seconds}


def _view_local_time(content: Any) -> Json:
    text, zone, fold = _list(content)
    named = {} if zone is None else {"zone": _text(zone)}
    return {"$datetime": _text(text), **named, **({"fold": 1} if fold else {})}


def _view_time(content: Any) -> Json:
    text, fold = _list(content)
    return {"$time": _text(text), **({"fold": 1} if fold else {})}


def _view_enum(content: Any) -> Json:
    name, member = _list(content)
    return {"$enum": _text(name), ("name" if type(member) is str else "value"): _view(member)}


def _view_object(content: Any) -> Json:
    name, fields = _list(content)
    return {"$object": _text(name), "fields": _view(fields)}


def _view_definition(content: Any) -> Json:
    name, captured = _list(content)
    return {"$definition": _text(name), **({} if captured is None else {"captured": _view(captured)})}


def _view_exception(content: Any) -> Json:
    fields = dict(_pairs(content))
    name = _text(fields.get("t"))
    found: dict[str, Json] = {
        "type": name.rpartition(":")[2].rpartition("/")[2].rpartition(".")[2],
        "code": _code(name, fields.get("d")),
        "message": _text(fields.get("m")),
        "traceback": _view(fields.get("b")),
        "notes": _view(fields.get("n", [])),
        "cause": _other(fields.get("c")),
    }
    if "g" in fields:
        found["members"] = [_other(member) for member in _list(fields["g"])]
    elif gathered := _gathered(fields.get("d")):
        found["members"] = gathered
    return {"$error": found}


def _gathered(attributes: Any) -> list[Json]:
    """The errors of branches, by name, that a JoinError and its kin carry."""
    errors = dict(attributes).get("errors") if isinstance(attributes, _Map) else None
    if not isinstance(errors, _Map):
        return []
    return [
        {"name": _view(name), **_other(error)}
        for name, error in errors
        if isinstance(error, _Tagged) and error.number == tags.EXCEPTION
    ]


def _other(content: Any) -> Json:
    return None if content is None else _view(content)["$error"]


def _code(name: str, attributes: Any) -> str | None:
    """The stable code of an error of ours; of some it belongs to the instance."""
    cls = find_class(name)
    if cls is None or not issubclass(cls, TenutoError):
        return None
    own = dict(attributes).get("code") if isinstance(attributes, _Map) else None
    return own if type(own) is str else cls.code


def _list(content: Any) -> list[Any]:
    return content if is_list(content) else _malformed("an array")


def _pairs(content: Any) -> Pairs:
    return content if isinstance(content, _Map) else _malformed("a map")


def _text(content: Any) -> str:
    return content if type(content) is str else _malformed("a text")


def _malformed(what: str) -> NoReturn:
    raise Refused(f"{what} is malformed")


_TAGS: Final[dict[int, Callable[[Any], Json]]] = {
    tags.TIMESTAMP: _view_text("$datetime"),
    tags.BIG_POSITIVE: lambda content: _view_int(_big(content)),
    tags.BIG_NEGATIVE: lambda content: _view_int(-1 - _big(content)),
    tags.UUID: _view_uuid,
    tags.SET: _view_list("$set"),
    tags.TIMEDELTA: _view_timedelta,
    tags.DATE: _view_text("$date"),
    tags.TUPLE: _view_list("$tuple"),
    tags.FROZENSET: _view_list("$frozenset"),
    tags.ENUM: _view_enum,
    tags.OBJECT: _view_object,
    tags.EXCEPTION: _view_exception,
    tags.LOCAL_TIME: _view_local_time,
    tags.TIME: _view_time,
    tags.DECIMAL: _view_text("$decimal"),
    tags.DEFINITION: _view_definition,
    tags.CLASS: _view_text("$class"),
}
