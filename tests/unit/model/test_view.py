"""The view of a module, and the substitutes in it, outside of any run."""

from __future__ import annotations

import datetime
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tenuto.errors import NotCompiledError
from tenuto.model import view
from tenuto.model.substitutes import substitute
from tenuto.model.view import body_of, view_of


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "viewed.py").write_text(
        "import time, os\nimport viewed_other\nfrom viewed_other import helper\nfrom random import randint\n"
        "LIMIT = [1]\nclass Thing: ...\ndef plain(x=LIMIT): return helper, time, x\n"
        "def factory():\n    inside = 3\n    def closed(): return inside\n    return closed\nclosed = factory()\n"
    )
    (tmp_path / "viewed_other.py").write_text("import viewed\ndef helper(): return viewed\n")
    monkeypatch.syspath_prepend(tmp_path)
    import viewed  # type: ignore[import-not-found]

    yield viewed
    for name in ("viewed", "viewed_other"):
        sys.modules.pop(name, None)
        view.drop(name)


def test_a_view_shares_values_and_replaces_functions_and_modules(host: ModuleType) -> None:
    seen = view_of(host)
    assert seen is not host
    assert sys.modules["viewed"] is host
    assert seen.LIMIT is host.LIMIT
    assert seen.Thing is host.Thing
    assert seen.plain is not host.plain
    assert seen.plain.__code__ is host.plain.__code__
    assert seen.plain.__globals__ is vars(seen)
    assert seen.plain.__defaults__ == (host.LIMIT,)
    assert seen.time is not time
    assert seen.closed is host.closed


def test_modules_that_import_each_other_have_views_that_do(host: ModuleType) -> None:
    seen = view_of(host)
    assert seen.viewed_other is view_of(sys.modules["viewed_other"])
    assert seen.helper is seen.viewed_other.helper
    assert seen.helper() is seen


def test_a_view_is_made_once_and_again_after_a_reload(host: ModuleType) -> None:
    import importlib

    first = view_of(host)
    assert view_of(host) is first
    importlib.reload(host)
    assert view_of(host) is not first


def test_a_body_keeps_its_cells_and_gets_the_view(host: ModuleType) -> None:
    body = body_of(host.closed)
    assert body.__closure__ is host.closed.__closure__
    assert body.__globals__ is vars(view_of(host))
    assert body_of(body) is body


def test_substitutes_are_the_real_thing_outside_of_a_turn() -> None:
    seen = substitute(time)
    assert abs(seen.time() - time.time()) < 5
    assert substitute(os).environ["PATH"] == os.environ["PATH"]
    assert "PATH" in substitute(os.environ)
    assert substitute(os.getpid)() == os.getpid()
    moment = substitute(datetime).datetime
    assert type(moment.now()) is datetime.datetime
    assert moment == datetime.datetime
    assert hash(moment) == hash(datetime.datetime)
    assert moment.resolution is datetime.datetime.resolution
    assert isinstance(substitute(random).Random(), random.Random)
    assert isinstance(substitute(uuid.uuid4)(), uuid.UUID)
    assert isinstance(substitute(threading.Thread)(), threading.Thread)


def test_a_substituted_class_can_be_subclassed() -> None:
    moment = substitute(datetime.datetime)

    class Mine(moment):  # type: ignore[misc, valid-type]
        pass

    made = Mine(2020, 1, 1)
    assert isinstance(made, Mine)
    assert isinstance(made, datetime.datetime)
    assert not isinstance(datetime.datetime(2020, 1, 1), Mine)  # noqa: DTZ001


def test_what_is_not_substituted_is_said_to_be_itself() -> None:
    assert substitute(os.path) is None
    assert substitute(3) is None
    assert substitute(random.Random) is not None
    assert substitute(uuid.uuid5) is None


def test_views_of_a_long_chain_of_modules_are_made_without_recursion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = 400
    for number in range(length):
        following = f"import chain{number + 1}\n" if number + 1 < length else ""
        (tmp_path / f"chain{number}.py").write_text(f"import time\ndef f(): return time\n{following}")
    monkeypatch.syspath_prepend(tmp_path)
    for number in reversed(range(length)):
        __import__(f"chain{number}")
    seen = view_of(sys.modules["chain0"])
    for number in range(1, length):
        seen = getattr(seen, f"chain{number}")
    assert seen.f() is not time
    for number in range(length):
        del sys.modules[f"chain{number}"]
        view.drop(f"chain{number}")


def test_a_view_that_could_not_be_made_is_made_again(host: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "__tenuto_manifest__", {}, raising=False)
    monkeypatch.setattr(view, "_compiler", None)
    with pytest.raises(NotCompiledError):
        view_of(host)
    monkeypatch.delattr(host, "__tenuto_manifest__")
    assert view_of(host).LIMIT is host.LIMIT
