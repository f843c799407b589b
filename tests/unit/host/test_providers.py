"""Providers of definitions: the host knows them by their protocol alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tenuto.host
from tenuto.host.definitions import Definitions
from tenuto.model.registry import Registry
from tenuto.twf import load_program
from tenuto.twf.provider import TwfProvider

ONE = "workflow W() -> (int):\n    close 1\n"
TWO = "workflow W() -> (int):\n    close 2\n"


def test_no_module_of_the_host_names_a_language() -> None:
    for path in Path(tenuto.host.__file__).parent.glob("*.py"):
        assert not re.search(r"\btwf\b", path.read_text("utf-8"), re.IGNORECASE), path.name


def test_the_language_is_not_loaded_before_there_is_a_program() -> None:
    code = "import sys, tenuto; print([name for name in sys.modules if name.startswith('tenuto.twf.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['tenuto.twf.provider']"


def test_a_run_keeps_the_text_it_was_started_with() -> None:
    registry = Registry()
    first = load_program(files={"w.twf": ONE}, registry=registry)
    second = load_program(files={"w.twf": TWO}, registry=registry)
    definitions = Definitions(registry)
    current = definitions.workflow("W")
    assert definitions.definition(current).hash == second.hash
    assert definitions.definition(definitions.pinned("W", first.hash, current)).hash == first.hash
    assert definitions.pinned("W", "", current) is current
    assert definitions.loaded("W", "0" * 64) is None


def test_a_child_has_the_latest_definition_else_its_parents_own() -> None:
    registry = Registry()
    program = load_program(files={"w.twf": ONE + "\nworkflow Kid() -> (int):\n    close 3\n"}, registry=registry)
    definitions = Definitions(registry)
    parent = definitions.workflow("W")
    assert parent is not None
    registry.forget("Kid")
    assert definitions.child("Kid", parent).hash == program.hash
    assert definitions.child("nobody", parent).hash == ""


def test_each_registry_has_a_provider_of_its_own_and_sees_its_parents_programs() -> None:
    parent = Registry()
    child, stranger = Registry(parent), Registry()
    program = load_program(files={"w.twf": ONE}, registry=parent)
    assert child.provided(TwfProvider) is not parent.provided(TwfProvider)
    assert child.provided(TwfProvider) is child.provided(TwfProvider)
    assert [type(provider) for provider in child.providers()] == [TwfProvider]
    assert child.provided(TwfProvider).pinned("W", program.hash) is not None
    assert child.provided(TwfProvider).in_use
    assert stranger.provided(TwfProvider).pinned("W", program.hash) is None
    assert not stranger.provided(TwfProvider).in_use
    assert stranger.providers() != []
    assert Registry().providers() == []


@pytest.mark.parametrize("loaded", [True, False])
def test_what_programs_bring_tells_workers_apart(loaded: bool) -> None:
    from tenuto.twf import Bindings

    registry, plain = Registry(), Registry()
    if loaded:
        bindings = Bindings()
        bindings.activity("Price")(str)
        registry.provided(TwfProvider).library.add(bindings)
    same = Definitions(registry).capability(None) == Definitions(plain).capability(None)
    assert same is not loaded
