"""Exceptions as data (K119)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tenuto import errors
from tenuto.codec.exceptions import traceback_text
from tenuto.codec.values import dump, dump_error, load
from tenuto.errors import DecodingError, RemoteError


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        if cause is None:
            raise error
        raise error from cause
    except (Exception, KeyboardInterrupt) as caught:  # noqa: BLE001  # whatever it was
        return caught


def test_k119_an_exception_comes_back_with_attributes_cause_and_notes(shop: Any) -> None:
    error = raised(shop.CardError("visa", 4200), raised(ValueError("declined", 3)))
    error.add_note("try another")
    back = load(dump(error))
    assert type(back) is shop.CardError
    assert (str(back), back.args) == ("visa refused 4200", ("visa refused 4200",))
    assert (back.card, back.cents) == ("visa", 4200)
    assert not hasattr(back, "handle")
    assert back.__notes__ == ["try another"]
    assert type(back.__cause__) is ValueError
    assert back.__cause__.args == ("declined", 3)
    assert back.__suppress_context__
    assert back.__traceback__ is None


def test_k119_an_exception_whose_class_is_gone_is_a_remote_error(shop: Any, monkeypatch: Any) -> None:
    error = raised(shop.CardError("visa", 4200), KeyError("k"))
    error.add_note("try another")
    data = dump(error)
    monkeypatch.delitem(sys.modules, "shop")
    back = load(data)
    assert type(back) is RemoteError
    assert (back.type_name, back.message) == ("shop:CardError", "visa refused 4200")
    assert type(back.__cause__) is KeyError
    assert back.__notes__ == ["try another"]
    again = load(dump(back))
    assert type(again) is RemoteError
    assert (again.type_name, again.message) == ("shop:CardError", "visa refused 4200")


def test_an_exception_of_a_class_defined_in_a_function_is_stored_and_comes_back_as_a_remote_error(shop: Any) -> None:
    back = load(dump({"error": shop.local_error()}))["error"]
    assert (back.type_name, back.message) == ("shop:local_error.<locals>.LocalError", "local")


def test_our_own_errors_keep_class_fields_and_text() -> None:
    for error in [
        errors.StepExhaustedError("charge", "checkout/charge", 3, "exhausted"),
        errors.EncodingError("$.a", "object"),
        errors.LimitError("encoded value", 10, 11),
        errors.JoinError({"a": ValueError("x"), "b": errors.FatalError("y")}),
        errors.DecodingError("$", "shop:Order", "why", "fix"),
        errors.RemoteError("a:B", "text"),
        errors.UpdateRejectedError("validator", "too much"),
    ]:
        back: Any = load(dump(error))
        assert type(back) is type(error)
        assert str(back) == str(error)
        for name, value in vars(error).items():
            if name != "errors":
                assert getattr(back, name) == value
    assert [type(inner) for inner in load(dump(errors.JoinError({"a": KeyError(1)}))).errors.values()] == [KeyError]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueError(),
        lambda: KeyError("k"),
        lambda: FileNotFoundError(2, "gone", "a.txt"),
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        lambda: ImportError("no", name="n", path="p"),
        lambda: SyntaxError("bad", ("f.py", 1, 2, "x =")),
        lambda: StopIteration(5),
        lambda: json.JSONDecodeError("bad", "doc", 1),
        lambda: TimeoutError("late"),
    ],
)
def test_built_in_exceptions_come_back_with_what_only_their_constructor_sets(
    make: Callable[[], BaseException],
) -> None:
    error = make()
    back = load(dump(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    for name in ("errno", "filename", "start", "object", "name", "lineno", "value", "code", "pos"):
        assert getattr(back, name, None) == getattr(error, name, None)


def test_slots_come_back_too(shop: Any) -> None:
    assert load(dump(shop.Slotted("why"))).reason == "why"


def test_arguments_that_cannot_be_stored_are_replaced_by_the_message() -> None:
    back = load(dump(ValueError("bad", object)))
    assert back.args == (str(ValueError("bad", object)),)


def test_a_class_that_cannot_be_rebuilt_is_a_remote_error(shop: Any) -> None:
    back = load(dump(shop.NewNeedsTwo(1, 2)))
    assert type(back) is shop.NewNeedsTwo  # its arguments are both of what it was made with
    error = shop.NewNeedsTwo(1, 2)
    error.args = (1,)
    assert type(load(dump(error))) is RemoteError


def test_a_context_is_kept_unless_it_was_suppressed() -> None:
    context = ValueError("first")
    error = KeyError("second")
    error.__context__ = context
    back = load(dump(error))
    assert type(back.__context__) is ValueError
    assert not back.__suppress_context__
    error.__suppress_context__ = True
    assert load(dump(error)).__context__ is None


def test_groups_come_back_with_their_members(shop: Any) -> None:
    group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [shop.CardError("v", 1)])])
    back = load(dump(group))
    assert type(back) is ExceptionGroup
    assert back.message == "two"
    assert type(back.exceptions[0]) is ValueError
    assert type(back.exceptions[1].exceptions[0]) is shop.CardError


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseExceptionGroup("b", [KeyboardInterrupt()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_end_more_than_its_run_comes_back_as_a_remote_error(error: BaseException) -> None:
    """K119: only subclasses of `Exception` are rebuilt; raised again the others would end a worker."""
    back = load(dump(error))
    assert type(back) is RemoteError
    assert back.type_name.endswith(f":{type(error).__name__}")
    caused = ValueError("why")
    caused.__cause__ = error
    assert type(load(dump(caused)).__cause__) is RemoteError


def test_the_text_of_the_traceback_is_kept_through_storing_it_again() -> None:
    error = raised(ValueError("x"))
    text = traceback_text(error)
    assert text is not None
    assert "in raised" in text
    once = load(dump(error))
    assert traceback_text(once) == text
    twice = load(dump(raised(once)))
    assert traceback_text(twice) == text


# --- limits


def test_long_messages_and_tracebacks_are_cut() -> None:
    error = ValueError("ä" * 20_000)
    assert len(load(dump(RemoteError("a:B", "x"))).message) == 1
    fields = fields_of(error)
    assert len(fields["m"].encode()) <= 8192
    assert fields["m"].endswith("…")

    error.__dict__["__tenuto_traceback__"] = "line ä\n" * 10_000 + "the end\n"
    cut = fields_of(error)["b"]
    assert len(cut.encode()) <= 16 * 1024
    assert cut.startswith("…")
    assert cut.endswith("the end\n")


def fields_of(error: BaseException) -> dict[str, Any]:
    data = dump_error(error)
    assert data[:3] == b"\xd9\x74\x04"
    fields = load(data[3:])
    assert isinstance(fields, dict)
    return fields


def test_a_chain_is_cut_after_eight_causes() -> None:
    error = ValueError(0)
    for n in range(1, 20):
        outer = ValueError(n)
        outer.__cause__ = error
        error = outer
    back = load(dump(error))
    seen = []
    while back is not None:
        seen.append(back.args[0])
        back = back.__cause__
    assert seen == list(range(19, 10, -1))


def test_exceptions_that_cause_each_other_are_stored() -> None:
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    a.__context__, b.__context__ = b, a
    a.__suppress_context__ = b.__suppress_context__ = False
    assert type(load(dump(a)).__cause__.__cause__) is ValueError


def test_an_exception_is_never_too_large_to_be_stored(shop: Any) -> None:
    huge = ValueError(bytes(3 * 1024 * 1024))
    assert load(dump_error(huge)).args[0].startswith("b'")
    many = ExceptionGroup("many", [ValueError("x" * 8000) for _ in range(400)])
    back = load(dump_error(many))
    assert str(back).startswith(("many", "builtins:ExceptionGroup"))
    attributes = shop.CardError("v", 1)
    attributes.blob = bytes(3 * 1024 * 1024)
    assert load(dump_error(attributes)).card == "v"
    nested = ValueError("deep")
    nested.args = (nested,)
    assert type(load(dump_error(nested))) is ValueError
    assert len(dump_error(many)) < 2 * 1024 * 1024


def test_an_exception_whose_text_cannot_be_made_is_stored(shop: Any) -> None:
    assert type(load(dump_error(shop.Unprintable("x")))) is shop.Unprintable
    assert "could not be made" in fields_of(shop.Unprintable("x"))["m"]


def test_half_a_surrogate_pair_in_a_message_is_replaced() -> None:
    back = load(dump_error(ValueError("a\ud800b")))
    assert str(back) == "a?b"


def test_an_exception_inside_too_many_levels_is_refused_like_any_value() -> None:
    value: Any = ValueError("x")
    for _ in range(99):
        value = [value]
    assert dump(load(dump(value)))
    with pytest.raises(errors.LimitError, match="nesting"):
        dump([value])


# --- damage


@pytest.mark.parametrize(
    "fields",
    [
        {"t": "builtins:ValueError", "m": "x", "z": 1},
        {"t": "builtins:ValueError", "m": "x", "a": 1},
        {"t": "builtins:ValueError", "m": "x", "d": []},
        {"t": "builtins:ValueError", "m": "x", "d": {1: 2}},
        {"t": "builtins:ValueError", "m": "x", "n": [1]},
        {"t": "builtins:ValueError", "m": "x", "b": 1},
        {"t": "builtins:ValueError", "m": "x", "c": "y"},
        {"t": "builtins:ExceptionGroup", "m": "x", "g": ["y"]},
        {1: 2, "t": "builtins:ValueError", "m": "x"},
    ],
)
def test_a_malformed_exception_is_a_decoding_error(fields: dict[Any, Any]) -> None:
    with pytest.raises(DecodingError):
        load(b"\xd9\x74\x04" + dump(fields))


def test_attributes_that_no_longer_fit_are_dropped_and_properties_are_not_run() -> None:
    fields = {
        "t": "builtins:UnicodeDecodeError",
        "m": "x",
        "d": {"start": "no number", "args": [1], "__class__": 1, "plain": 2},
    }
    back = load(b"\xd9\x74\x04" + dump(fields))
    assert back.plain == 2
    assert type(back) is UnicodeDecodeError
    assert load(b"\xd9\x74\x04" + dump({"t": "builtins:ExceptionGroup", "m": "x", "a": []})).message == "x"
