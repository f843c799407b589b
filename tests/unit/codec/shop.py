"""Classes that values are made of in these tests; loaded as the module `shop`."""

from __future__ import annotations

import enum
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Size(enum.IntEnum):
    SMALL = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Loose(enum.Flag, boundary=enum.CONFORM):
    READ = 1


class Bits(enum.IntFlag):
    A = 1
    B = 4


@dataclass
class Order:
    id: int
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: Any = 0


@dataclass(kw_only=True)
class Account:
    owner: Any
    balance: int = field(default=0, init=False)
    checked: bool = field(default=False, repr=False, compare=False)


@dataclass
class Unset:
    a: int
    later: int = field(init=False)


@dataclass
class NeedsMore:
    a: int
    extra: InitVar[int]

    def __post_init__(self, extra: int) -> None:
        self.a += extra


@dataclass
class Picky:
    a: Any

    def __post_init__(self) -> None:
        if self.a == "bad":
            raise RuntimeError("no")


@dataclass
class Bag(dict[str, int]):
    a: int = 1


class Sulk:
    def __get__(self, instance: object, owner: type) -> int:
        if instance is None:
            return 1
        raise RuntimeError("not now")

    def __set__(self, instance: object, value: int) -> None:
        pass


@dataclass
class Moody:
    a: int = Sulk()  # type: ignore[assignment]


class Undecorated(Order):
    pass


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Model(pydantic.BaseModel):
    name: str
    items: list[Point] = []
    strict_positive: int = pydantic.Field(default=1, gt=0)


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int


class Struct(msgspec.Struct):
    a: int
    b: list[int] = []


class Kw(msgspec.Struct, kw_only=True, frozen=True):
    a: int = 3
    b: str


class Span:
    """Stores itself by the special methods."""

    def __init__(self, lo: int, hi: int) -> None:
        self.lo, self.hi = lo, hi

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.lo, self.hi) == (other.lo, other.hi)

    __hash__ = None  # type: ignore[assignment]

    def __workflow_serialize__(self) -> list[int]:
        return [self.lo, self.hi]

    @classmethod
    def __workflow_deserialize__(cls, data: list[int]) -> Span:
        return cls(*data)


class Outer:
    @dataclass
    class Inner:
        a: int


class CardError(Exception):
    """Calls itself by more than its arguments."""

    def __init__(self, card: str, cents: int) -> None:
        super().__init__(f"{card} refused {cents}")
        self.card = card
        self.cents = cents
        self.handle = object()  # cannot be stored


class Slotted(Exception):
    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


class NewNeedsTwo(Exception):
    def __new__(cls, a: int, b: int) -> NewNeedsTwo:
        self = super().__new__(cls, a)
        self.b = b
        return self

    b: int


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


def local_class() -> Any:
    @dataclass
    class Local:
        a: int

    return Local(1)


def local_error() -> Exception:
    class LocalError(Exception):
        pass

    return LocalError("local")
