"""Stored bytes build objects of classes that the project mentions, and of no others: loaded is not enough."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest

from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, EncodingError

_NUMBERS = itertools.count()
MODELS = """
    from __future__ import annotations
    import enum
    from dataclasses import dataclass
    from typing import NamedTuple

    class Size(enum.Enum):
        SMALL = 1

    @dataclass
    class Price:
        cents: int

    @dataclass
    class Item:
        name: str
        price: list[Price | None] | None = None

    class Pair(NamedTuple):
        left: int

    @dataclass
    class Other:
        id: int

    def make(name):
        return Item(name)
"""


class Place:
    """A project, and a package installed for it, under names that no other test has."""

    def __init__(self, folder: Path) -> None:
        number = next(_NUMBERS)
        self.package = f"acme{number}"
        self.project = f"shop{number}"
        self._installed = folder / "site-packages"
        self._own = folder / "project"
        self.install("models", MODELS)

    def install(self, name: str, text: str) -> Any:
        return self._write(self._installed / self.package, f"{self.package}.{name}", name, text)

    def write(self, text: str) -> Any:
        """The project's one file; `acme` in it is the installed package."""
        return self._write(self._own, self.project, self.project, text)

    def _write(self, folder: Path, module: str, name: str, text: str) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        lines = text.replace("acme", self.package).strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        (folder / f"{name}.py").write_text("\n".join(line[indent:] for line in lines) + "\n")
        importlib.invalidate_caches()
        return importlib.import_module(module)

    @property
    def models(self) -> Any:
        return sys.modules[f"{self.package}.models"]

    def stored(self, name: str, /, **fields: Any) -> bytes:
        """The bytes of an object, whoever may write it."""
        return b"\xd9\x74\x03\x82" + dump(f"{self.package}.models:{name}") + dump(fields)

    def is_built(self, name: str, /, **fields: Any) -> bool:
        """Whether objects of a class are both written and read."""
        cls = getattr(self.models, name)
        try:
            value = load(self.stored(name, **fields))
        except DecodingError as error:
            refused = error
        else:
            assert type(value) is cls
            assert load(dump(value)) == value
            return True
        line = f"from {self.package}.models import {name}"
        assert "not registered" in str(refused)
        assert line in str(refused)
        assert refused.type_name == f"{self.package}.models:{name}"
        with pytest.raises(EncodingError, match=line):
            dump(cls(**fields))
        return False


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for folder in ("site-packages", "project"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    return Place(tmp_path)


def test_a_class_whose_module_is_only_loaded_is_neither_read_nor_written(place: Place) -> None:
    place.write("import acme.models\nhere = acme.models.make('x')")
    assert not place.is_built("Item", name="x")


@pytest.mark.parametrize(
    "text",
    [
        "from acme.models import Item",
        "from acme.models import Item as Thing",
        "from acme.models import *",
        "def f():\n    from acme.models import Item\n    return Item",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from acme.models import Item",
        "import acme.models as m\ndef f(x: m.Item): ...",
        "import acme.models as m\nasync def f() -> list[m.Item] | None: ...",
        "from __future__ import annotations\nimport acme.models\ndef f(x: dict[str, acme.models.Item]): ...",
        "from __future__ import annotations\nimport acme.models as m\nclass C:\n    x: m.Item",
        "import acme.models as m\nfrom typing import Annotated, Optional\nx: Annotated[Optional[m.Item], 5]",
        "import acme.models as m\nclass C:\n    def f(self, x: 'tuple[m.Item, ...]'): ...",
        "import acme.models as m\nfrom dataclasses import dataclass\n@dataclass\nclass C:\n    x: 'list[m.Item]'",
        "import acme.models as m\nfrom tenuto import step\n@step\nasync def f(x: m.Item) -> int: ...",
        "from __future__ import annotations\nimport acme.models as m\nThing = m.Item | None\ndef f(x: Thing): ...",
    ],
)
def test_a_class_that_a_project_file_imports_or_annotates_is_read_and_written(place: Place, text: str) -> None:
    place.write(text)
    assert place.is_built("Item", name="x")
    assert not place.is_built("Other", id=1) or "*" in text


def test_what_stands_in_the_fields_of_a_registered_class_counts_too(place: Place) -> None:
    place.write("from acme.models import Item")
    assert place.is_built("Price", cents=5)
    value = place.models.Item("x", [place.models.Price(1), None])
    assert load(dump(value)) == value


def test_a_class_counts_from_the_moment_on_that_a_file_mentions_it(place: Place) -> None:
    assert not place.is_built("Item", name="x")
    place.write("from acme.models import Item")
    assert place.is_built("Item", name="x")


@pytest.mark.parametrize(("name", "kind"), [("Size", "enum"), ("Pair", "named tuple"), ("Item", "class itself")])
def test_the_rule_holds_for_every_sort_of_class(place: Place, name: str, kind: str) -> None:
    stored = {
        "enum": b"\xd9\x74\x02\x82" + dump(f"{place.package}.models:{name}") + dump("SMALL"),
        "named tuple": place.stored(name, left=1),
        "class itself": b"\xd9\x74\x0a" + dump(f"{place.package}.models:{name}"),
    }[kind]
    for data in (stored, dump([1])[:0] + b"\x81" + stored):
        with pytest.raises(DecodingError, match="not registered"):
            load(data)
    place.write(f"from acme.models import {name}")
    assert dump(load(stored)) == stored


def test_what_is_serializable_counts_whoever_mentions_it(place: Place) -> None:
    from tenuto.codec.classes import register_class, unregister_class

    identity = f"class//{place.package}//Other"
    register_class(identity, place.models.Other, lambda other: other.id, place.models.Other)
    try:
        assert load(dump(place.models.Other(3))) == place.models.Other(3)
    finally:
        unregister_class(identity)


def test_an_installed_application_that_defines_workflows_counts_as_a_project(place: Place) -> None:
    place.install("flows", "from tenuto import workflow\n@workflow(name='installed')\nasync def run_it(): ...")
    assert place.is_built("Item", name="x")


def test_a_step_made_of_a_foreign_function_does_not_bring_its_package_in(place: Place) -> None:
    place.write("import acme.models\nfrom tenuto import step\nmake = step(name='made')(acme.models.make)")
    assert not place.is_built("Item", name="x")


def test_an_exception_of_any_loaded_module_is_rebuilt(place: Place) -> None:
    module = place.install("faults", "class CardError(Exception):\n    pass")
    assert type(load(dump(module.CardError("no")))) is module.CardError


RUN = """
import cbor2, http, sys
from dataclasses import dataclass
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, RemoteError

@dataclass
class Order:
    id: int

assert load(dump(Order(7))) == Order(7)
try:
    load(cbor2.dumps(cbor2.CBORTag(29698, ["http:HTTPStatus", "OK"])))
except DecodingError as refused:
    assert "from http import HTTPStatus" in str(refused), refused
else:
    raise AssertionError("built")
error = load(cbor2.dumps(cbor2.CBORTag(29700, {"t": "builtins:KeyboardInterrupt", "m": "x", "a": ["x"]})))
assert type(error) is RemoteError, error
print("fine")
"""


@pytest.mark.parametrize("how", ["a script", "a module", "a prompt", "-c"])
def test_classes_of_the_program_itself_count_however_it_is_run(how: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(RUN)
    command, given = {
        "a script": (["program.py"], ""),
        "a module": (["-m", "program"], ""),
        "a prompt": (["-"], RUN),
        "-c": (["-c", RUN], ""),
    }[how]
    done = subprocess.run(
        [sys.executable, *command], input=given, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_asking_again_costs_next_to_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenuto.codec import mentions

    place.write("from acme.models import Item")
    assert place.is_built("Item", name="x")
    looked: list[object] = []
    look: Callable[[Any], bool] = mentions._look_for
    monkeypatch.setattr(mentions, "_look_for", lambda cls: looked.append(cls) or look(cls))
    assert place.is_built("Item", name="x")
    assert looked == []


def test_bytes_that_name_many_classes_are_refused_at_the_first(place: Place) -> None:
    data = cbor2.dumps([cbor2.CBORTag(29698, [f"{place.package}.models:Size", "SMALL"])] * 1000)
    with pytest.raises(DecodingError, match=r"\$\[0\]"):
        load(data)
