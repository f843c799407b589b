"""Objects by their fields, enums, classes that store themselves, steps and workflows (K117, K118, K120)."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec import classes
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, DuplicateIdError, EncodingError, LimitError


def samples(shop: Any) -> list[Any]:
    account = shop.Account(owner=("a", "b"))
    account.balance = 7
    return [
        shop.Color.RED,
        shop.Size.SMALL,
        shop.Word.HELLO,
        shop.Access.READ,
        shop.Access.BOTH,
        shop.Bits.A | shop.Bits.B,
        shop.Bits(0),
        shop.Order(7, ["x"]),
        shop.Point(1, {2: (3,)}),
        account,
        shop.Pair(1, [2]),
        shop.Pair(shop.Pair(1)),
        shop.Model(name="n", items=[shop.Point(1)]),
        shop.Open(a=1, b=[2]),
        shop.Struct(1, [2]),
        shop.Kw(b="x"),
        shop.Span(1, 9),
        shop.Outer.Inner(3),
    ]


@pytest.mark.parametrize(
    ("make", "sample"),
    [
        (lambda shop: shop.Color.RED, "d97402826a73686f703a436f6c6f7263524544"),
        (
            lambda shop: shop.Order(id=7, tags=["x"]),
            "d97403826a73686f703a4f72646572a2626964076474616773816178",
        ),
        (lambda shop: shop.Span(1, 9), "d974038271636c6173732f2f6d2e70792f2f5370616e820109"),
        (lambda shop: shop.Span, "d9740a71636c6173732f2f6d2e70792f2f5370616e"),
    ],
)
def test_k115_the_objects_of_the_specification_have_exactly_these_bytes(
    shop: Any, make: Callable[[Any], Any], sample: str
) -> None:
    value = make(shop)
    assert dump(value).hex() == sample
    assert load(bytes.fromhex(sample)) == value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: value,
        lambda value: [value],
        lambda value: {"k": (value,)},
        lambda value: {"o": {"deep": [value, value]}},
    ],
)
def test_k115_every_sort_of_object_comes_back_the_same_in_every_container(
    shop: Any, wrap: Callable[[Any], Any]
) -> None:
    for value in samples(shop):
        assert load(dump(wrap(value))) == wrap(value)
        assert type(load(dump(value))) is type(value)


def test_objects_can_be_keys_and_members_of_sets(shop: Any) -> None:
    value = {shop.Point(1, 2): {shop.Color.RED, shop.Color.GREEN}, shop.Pair(1, 2): 3}
    assert load(dump(value)) == value


def test_containers_inside_objects_come_back_mutable(shop: Any) -> None:
    order = load(dump(shop.Order(1, ["a"])))
    order.tags.append("b")
    assert order == shop.Order(1, ["a", "b"])


def test_fields_that_the_constructor_does_not_take_are_set_afterwards(shop: Any) -> None:
    account = shop.Account(owner="o")
    account.balance = 12
    assert load(dump(account)).balance == 12


def test_a_field_that_was_never_set_stays_so(shop: Any) -> None:
    back = load(dump(shop.Unset(1)))
    assert back.a == 1
    assert not hasattr(back, "later")


def test_pydantic_validators_do_not_run_again(shop: Any) -> None:
    value = shop.Model.model_construct(name="n", strict_positive=-5)
    assert load(dump(value)).strict_positive == -5


def test_an_unnamed_combination_of_flags_is_stored_by_its_number(shop: Any) -> None:
    assert dump(shop.Bits(5)) == bytes.fromhex("d97402826973686f703a4269747305")
    assert load(dump(shop.Bits(5))) is shop.Bits.A | shop.Bits.B
    assert load(dump(shop.Access(3))) is shop.Access.BOTH


def test_a_class_of_a_listed_sort_is_itself_a_value(shop: Any) -> None:
    for cls in (shop.Order, shop.Color, shop.Pair, shop.Model, shop.Struct, shop.CardError, ValueError):
        assert load(dump([cls])) == [cls]
    with pytest.raises(EncodingError, match="not registered"):
        dump([shop.Outer])


# --- what is refused on writing


def test_k118_a_class_defined_in_a_function_is_refused_with_its_path(shop: Any) -> None:
    with pytest.raises(EncodingError, match="inside a function") as caught:
        dump({"order": [shop.local_class()]})
    assert caught.value.path == "$.order[0]"
    assert caught.value.type_name == "shop.local_class.<locals>.Local"


def test_a_field_that_cannot_be_stored_is_named(shop: Any) -> None:
    with pytest.raises(EncodingError) as caught:
        dump({"items": [shop.Point(0), shop.Account(owner=object())]})
    assert caught.value.path == "$.items[1].owner"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda shop: shop.NeedsMore(1, 2), "constructor"),
        (lambda shop: shop.Undecorated(1), "cannot be stored"),
        (lambda shop: shop.Bag(), "built-in"),
        (lambda shop: shop.Moody(), "raised RuntimeError"),
        (lambda shop: shop.Outer(), "cannot be stored"),
    ],
)
def test_an_object_that_could_not_be_built_again_is_refused(shop: Any, make: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(EncodingError, match=why):
        dump(make(shop))


def test_a_class_that_its_name_does_not_lead_to_is_refused(shop: Any) -> None:
    hidden = dataclass(type("Hidden", (), {"__annotations__": {"a": int}, "__module__": "shop"}))
    with pytest.raises(EncodingError, match="not what shop:Hidden names"):
        dump(hidden(1))  # type: ignore[call-arg]


def test_k118_a_chain_of_a_hundred_objects_is_stored_and_one_more_is_refused(shop: Any) -> None:
    value: Any = 1
    for _ in range(100):
        value = shop.Point(value)
    assert load(dump(value)) == value
    with pytest.raises(LimitError, match="nesting"):
        dump(shop.Point(value))
    value = shop.Span(1, 2)
    for _ in range(98):
        value = [value]
    assert load(dump(value)) == value


# --- what is refused on reading


def test_k117_a_class_that_is_not_loaded_is_named_and_read_once_it_is(shop: Any, monkeypatch: Any) -> None:
    data = dump({"o": shop.Order(1)})
    monkeypatch.delitem(sys.modules, "shop")
    with pytest.raises(DecodingError, match="shop:Order is not loaded") as caught:
        load(data)
    assert caught.value.path == "$.o"
    assert caught.value.type_name == "shop:Order"
    assert "import its module in the worker" in str(caught.value)
    monkeypatch.setitem(sys.modules, "shop", shop)
    assert load(data) == {"o": shop.Order(1)}


def test_nothing_is_imported_because_data_names_it() -> None:
    assert "wave" not in sys.modules
    with pytest.raises(DecodingError, match="not loaded"):
        load(b"\xd9\x74\x03\x82" + dump("wave:Wave_read") + b"\xa0")
    assert "wave" not in sys.modules


def test_a_module_is_not_asked_for_names_it_would_have_to_make(monkeypatch: Any) -> None:
    lazy = types.ModuleType("lazy")
    asked: list[str] = []
    lazy.__dict__["__getattr__"] = asked.append
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    with pytest.raises(DecodingError):
        load(b"\xd9\x74\x03\x82" + dump("lazy:Thing") + b"\xa0")
    assert asked == []


@pytest.mark.parametrize("name", ["subprocess:Popen", "builtins:object", "shop:local_class", "shop:Outer", "os:system"])
def test_only_classes_of_a_listed_sort_are_built(shop: Any, name: str) -> None:
    for tag in (b"\xd9\x74\x03\x82" + dump(name) + b"\xa0", b"\xd9\x74\x0a" + dump(name)):
        with pytest.raises(DecodingError):
            load(tag)
    assert type(load(b"\xd9\x74\x04\xa2\x61t" + dump(name) + b"\x61m\x60")).__name__ == "RemoteError"


def stored(class_name: str, /, **fields: Any) -> bytes:
    return b"\xd9\x74\x03\x82" + dump(class_name) + dump(fields)


def test_k120_a_field_the_class_has_lost_is_dropped(shop: Any) -> None:
    assert load(stored("shop:Order", id=1, tags=[], colour="red")) == shop.Order(1)
    assert load(stored("shop:Pair", left=1, right=2, middle=3)) == shop.Pair(1, 2)
    assert load(stored("shop:Struct", a=1, z=3)) == shop.Struct(1)
    assert load(stored("shop:Model", name="n", z=3)) == shop.Model(name="n")


def test_k120_a_field_the_class_has_gained_takes_its_default(shop: Any) -> None:
    assert load(stored("shop:Order", id=1)) == shop.Order(1, [])
    assert load(stored("shop:Pair", left=1)) == shop.Pair(1, None)
    assert load(stored("shop:Struct", a=1)) == shop.Struct(1, [])
    assert load(stored("shop:Model", name="n")) == shop.Model(name="n")


@pytest.mark.parametrize(
    ("name", "lost"), [("shop:Order", "id"), ("shop:Pair", "left"), ("shop:Struct", "a"), ("shop:Model", "name")]
)
def test_k120_a_field_the_class_has_gained_without_a_default_is_an_error(shop: Any, name: str, lost: str) -> None:
    with pytest.raises(DecodingError, match=f"without {lost}") as caught:
        load(stored(name))
    assert caught.value.type_name == name
    assert "give the field a default" in str(caught.value)


def test_a_constructor_that_raises_is_a_decoding_error_with_that_error_as_cause(shop: Any) -> None:
    with pytest.raises(DecodingError, match="RuntimeError") as caught:
        load(stored("shop:Picky", a="bad"))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("content", [b"\x80", b"\xa1\x01\x02", b"\xf6"])
def test_fields_that_are_not_named_are_refused(shop: Any, content: bytes) -> None:
    with pytest.raises(DecodingError, match="malformed"):
        load(b"\xd9\x74\x03\x82" + dump("shop:Order") + content)


@pytest.mark.parametrize(
    ("name", "member", "why"),
    [
        ("shop:Color", dump("BLUE"), "no member 'BLUE'"),
        ("shop:Color", dump(1), "malformed"),
        ("shop:Access", dump(64), "combination"),
        ("shop:Access", dump(1 << 20_000), "combination"),
        ("shop:Loose", dump(64), "combination"),  # it would leave the bit out, as Access does on Python 3.11.2
        ("shop:Order", dump("RED"), "no longer an enum"),
        ("shop:Gone", dump("RED"), "not loaded"),
    ],
)
def test_a_member_an_enum_does_not_have_is_refused(shop: Any, name: str, member: bytes, why: str) -> None:
    with pytest.raises(DecodingError, match=why):
        load(b"\xd9\x74\x02\x82" + dump(name) + member)


# --- classes that store themselves


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Registers classes until the end of the test."""
    ids: list[str] = []

    def remember(class_id: str, *rest: Any) -> None:
        classes.register_class(class_id, *rest)
        ids.append(class_id)

    yield remember
    for class_id in ids:
        classes.unregister_class(class_id)


def test_a_foreign_class_is_stored_by_functions(register: Callable[..., None]) -> None:
    register("class//net.py//Range", range, lambda r: [r.start, r.stop, r.step], lambda d: range(*d))
    assert load(dump({"r": range(1, 9, 2)})) == {"r": range(1, 9, 2)}


def test_methods_of_any_name_can_be_marked(register: Callable[..., None]) -> None:
    class Marked:
        def __init__(self, a: int) -> None:
            self.a = a

        @classes.serializer
        def out(self) -> int:
            return self.a

        @staticmethod
        @classes.deserializer
        def back(data: int) -> Marked:
            return Marked(data)

    class Turned(Marked):
        @classes.serializer
        @staticmethod
        def out(value: Marked) -> int:  # type: ignore[override]
            return -value.a

        @classes.deserializer
        @classmethod
        def back(cls, data: int) -> Turned:  # type: ignore[override]
            return cls(-data)

    for cls in (Marked, Turned):
        register(f"class//m.py//{cls.__name__}", cls)
        value = load(dump([cls(5)]))[0]
        assert type(value) is cls
        assert value.a == 5


def test_a_registered_class_without_methods_is_a_value_itself_and_its_objects_keep_their_sort(
    shop: Any, register: Callable[..., None]
) -> None:
    register("class//shop.py//Order", shop.Order)
    assert dump(shop.Order) == b"\xd9\x74\x0a" + dump("class//shop.py//Order")
    assert load(dump(shop.Order)) is shop.Order
    assert load(dump(shop.Order(1))) == shop.Order(1)
    assert load(stored("shop:Order", id=1)) == shop.Order(1)


def test_a_class_with_only_one_of_the_two_methods_is_refused() -> None:
    class Half:
        def __workflow_serialize__(self) -> int:
            return 1

    with pytest.raises(TypeError, match="no deserializer"):
        classes.register_class("class//m.py//Half", Half)
    assert classes.registered_id(Half) is None


def test_two_classes_cannot_have_one_id_and_the_first_stays(shop: Any) -> None:
    with pytest.raises(DuplicateIdError):
        classes.register_class("class//m.py//Span", shop.Order)
    assert classes.find_class("class//m.py//Span") is shop.Span


def test_a_module_that_is_loaded_again_replaces_its_classes(shop: Any) -> None:
    newer = type("Span", (), dict(vars(shop.Span)))
    classes.register_class("class//m.py//Span", newer)
    assert classes.find_class("class//m.py//Span") is newer
    assert classes.registered_id(shop.Span) is None


def test_methods_that_raise_or_give_what_cannot_be_stored_are_told(register: Callable[..., None]) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("no")

    class Thing:
        pass

    register("a", Thing, fail, fail)
    with pytest.raises(EncodingError, match="raised RuntimeError"):
        dump(Thing())
    register("a", Thing, lambda _: 1, fail)
    with pytest.raises(DecodingError, match="raised RuntimeError") as caught:
        load(dump([Thing()]))
    assert caught.value.path == "$[0]"
    register("a", Thing, lambda _: [object()], fail)
    with pytest.raises(EncodingError) as refused:
        dump({"t": Thing()})
    assert refused.value.path == "$.t[0]"


# --- steps and workflows


class Definition:
    def __init__(self, definition_id: str, captured: dict[str, Any] | None = None) -> None:
        self.id, self.captured = definition_id, captured


class StepDefinition(Definition):
    pass


@pytest.fixture
def definitions(monkeypatch: Any) -> dict[str, Definition]:
    known: dict[str, Definition] = {}

    def find(definition_id: str, captured: dict[str, Any] | None) -> Definition:
        found = known[definition_id]
        return found if captured is None else type(found)(definition_id, captured)

    monkeypatch.setattr(classes, "_definitions", {})
    classes.register_definition_codec(Definition, lambda value: (value.id, value.captured), find)
    return known


def test_a_step_is_stored_by_its_id(definitions: dict[str, Definition]) -> None:
    send = definitions["step//jobs.py//send"] = StepDefinition("step//jobs.py//send")
    assert dump(send).hex() == "d974098273737465702f2f6a6f62732e70792f2f73656e64f6"
    assert load(dump([send])) == [send]


def test_a_step_takes_its_captured_values_along(definitions: dict[str, Definition]) -> None:
    definitions["step//m.py//pack/label"] = StepDefinition("step//m.py//pack/label")
    back = load(dump(StepDefinition("step//m.py//pack/label", {"box": (1, [2])})))
    assert (type(back), back.captured) == (StepDefinition, {"box": (1, [2])})
    with pytest.raises(EncodingError) as caught:
        dump([StepDefinition("step//m.py//pack/label", {"box": object()})])
    assert caught.value.path == "$[0].box"


def test_a_step_that_is_not_loaded_is_named(definitions: dict[str, Definition]) -> None:
    data = dump({"s": StepDefinition("step//gone.py//x")})
    with pytest.raises(DecodingError, match=r"step//gone.py//x is not loaded") as caught:
        load(data)
    assert caught.value.path == "$.s"


# --- the program itself


@pytest.mark.slow
def test_classes_of_the_program_itself_are_stored_under_the_name_others_import_it_by(tmp_path: Path) -> None:
    source = (
        "from dataclasses import dataclass\n"
        "from tenuto.codec.values import dump, load\n"
        "@dataclass\nclass Order:\n    id: int\n"
        "if __name__ == '__main__':\n"
        "    data = dump(Order(7))\n"
        "    assert load(data) == Order(7)\n"
        "    print(data.hex())\n"
    )
    (tmp_path / "shop.py").write_text(source)
    expected = (b"\xd9\x74\x03\x82" + dump("shop:Order") + dump({"id": 7})).hex()
    for command in (["shop.py"], ["-m", "shop"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, check=True, text=True, timeout=30
        )
        assert done.stdout.strip() == expected
