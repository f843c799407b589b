"""The functions every program has, with the arguments they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ACTIVITY_BUILTINS", "BUILTINS", "PURE_BUILTINS", "WORKFLOW_BUILTINS", "Builtin"]


@dataclass(frozen=True, slots=True)
class Builtin:
    signature: str
    about: str


PURE_BUILTINS: Final[dict[str, Builtin]] = {
    "len": Builtin("len(value)", "The number of items, entries or characters."),
    "min": Builtin("min(a, b, …)", "The smallest of its arguments, or of one list."),
    "max": Builtin("max(a, b, …)", "The largest of its arguments, or of one list."),
    "sum": Builtin("sum(list)", "The sum of a list."),
    "abs": Builtin("abs(number)", "A number without its sign."),
    "round": Builtin("round(number)", "The nearest whole number."),
    "range": Builtin("range(n)", "The list 0, 1, … n-1."),
    "str": Builtin("str(value)", "A value as text."),
    "int": Builtin("int(value)", "A value as a whole number."),
    "float": Builtin("float(value)", "A value as a number with decimals."),
    "bool": Builtin("bool(value)", "Whether a value counts as true."),
    "keys": Builtin("keys(map)", "The keys of a map, in order."),
    "values": Builtin("values(map)", "The values of a map, in order."),
    "get": Builtin("get(map, key, default)", "The value under a key, or the default."),
    "has": Builtin("has(map, key)", "Whether a map has a key."),
    "contains": Builtin("contains(list, value)", "Whether a list, map or text contains a value."),
    "append": Builtin("append(list, value)", "A new list with one more item."),
    "sorted": Builtin("sorted(list)", "A new list in order."),
    "join": Builtin("join(list, separator)", "The items of a list as one text."),
    "split": Builtin("split(text, separator)", "The parts of a text."),
    "upper": Builtin("upper(text)", "A text in capitals."),
    "lower": Builtin("lower(text)", "A text in small letters."),
    "trim": Builtin("trim(text)", "A text without blanks at its ends."),
    "chunk": Builtin("chunk(list, n)", "A list cut into lists of n items."),
}
_EVERYWHERE: Final[dict[str, Builtin]] = {
    "now": Builtin("now()", "The time: the run's own in workflow code, the real one in an activity."),
    "uuid": Builtin("uuid()", "A new id; in workflow code the same one on replay."),
    "random": Builtin("random()", "A number from 0 to 1; in workflow code the same one on replay."),
}
WORKFLOW_BUILTINS: Final[dict[str, Builtin]] = {
    **_EVERYWHERE,
    "workflow_id": Builtin("workflow_id()", "The id of this run."),
    "history_length": Builtin("history_length()", "How many entries this run has recorded."),
}
ACTIVITY_BUILTINS: Final[dict[str, Builtin]] = {
    **_EVERYWHERE,
    "fail": Builtin("fail(message, type: text, retryable: bool)", "Fails this attempt."),
    "get_heartbeat_details": Builtin("get_heartbeat_details()", "What the last failed attempt reported, or null."),
    "activity_info": Builtin("activity_info()", "The name and attempt of this activity."),
}
BUILTINS: Final[dict[str, Builtin]] = {**PURE_BUILTINS, **WORKFLOW_BUILTINS, **ACTIVITY_BUILTINS}
