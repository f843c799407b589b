"""Loading programs: which text has which hash, what is refused, and what bindings say of themselves."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tenuto import step, workflow
from tenuto.errors import DuplicateIdError, TwfError
from tenuto.model.registry import default
from tenuto.twf import Bindings, load_program
from tenuto.twf.run.compiled import program_hash

A = "workflow A():\n    await timer(1s)\n"
B = "workflow B():\n    workflow A()\n"


def test_a_programs_hash_is_made_of_its_paths_and_normalised_texts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.twf").write_bytes(("\ufeff" + B).encode().replace(b"\n", b"\r\n"))
    (tmp_path / "sub" / "a.twf").write_text(A)
    program = load_program(tmp_path)
    expected = sha256(f"b.twf\0{B}\0sub/a.twf\0{A}\0".encode()).hexdigest()
    assert program.hash == expected == program_hash({"sub/a.twf": A, "b.twf": B}.items())
    assert list(program.workflows) == ["B", "A"]


def test_comments_count_as_text() -> None:
    assert program_hash([("a.twf", A)]) != program_hash([("a.twf", A + "# more\n")])


def test_a_program_with_errors_is_refused_whole_and_says_where() -> None:
    with pytest.raises(TwfError) as refused:
        load_program(files={"a.twf": A, "bad.twf": "workflow C():\n    activity Nope()\n"})
    assert refused.value.code == "TWF301"
    assert "bad.twf:2:14" in refused.value.message
    assert default.get("A") is None


def test_a_python_workflow_of_that_id_refuses_the_whole_program() -> None:
    @workflow(name="B")
    async def other() -> None: ...

    with pytest.raises(DuplicateIdError):
        load_program(files={"a.twf": A, "b.twf": B})
    assert default.get("A") is None


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.twf").write_bytes(b"\xff\xfe")
    with pytest.raises(TwfError) as refused:
        load_program(tmp_path / "a.twf")
    assert refused.value.code == "TWF100"


def test_bindings_say_what_they_provide() -> None:
    b = Bindings()

    @b.activity("ChargeCard", max_attempts=5)
    async def charge() -> None: ...

    @b.function("db.get")
    def get() -> None: ...

    @b.function("tax.of", pure=True)
    def tax() -> None: ...

    @b.workflow
    @workflow(name="Remote")
    async def remote() -> None: ...

    bound = b.bound()
    assert bound.activities == {"ChargeCard"}
    assert dict(bound.functions) == {"db.get": False, "tax.of": True}
    assert "Remote" in bound.workflows


def test_a_name_is_bound_once() -> None:
    b = Bindings()
    b.activity("A")(print)
    b.activity("A")(print)
    with pytest.raises(ValueError, match="bound to"):
        b.activity("A")(len)
    with pytest.raises(TypeError):
        b.function("f")(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option"):
        b.activity("B", tries=3)  # type: ignore[call-arg]


def test_a_step_can_be_bound_with_its_options() -> None:
    b = Bindings()

    @b.activity("A")
    @step(name="bound-step", max_attempts=7)
    async def work() -> None: ...

    assert b.activities["A"].options["max_attempts"] == 7


def test_bindings_can_be_put_together() -> None:
    one, two = Bindings(), Bindings()
    one.activity("A")(print)
    two.function("f")(len)
    two.include(one)
    assert two.bound().activities == {"A"}
