"""TWF programs are kept by hash, once, and tell which workflows they define."""

from __future__ import annotations

from typing import Any


async def test_a_program_is_found_under_its_hash_and_under_no_other(store: Any) -> None:
    await store.keep_program("h1", "workflow A…", ["A"])
    assert await store.program("h1") == "workflow A…"
    assert await store.program("h2") is None


async def test_keeping_a_program_again_changes_nothing(store: Any) -> None:
    await store.keep_program("h1", "first", ["A"])
    await store.keep_program("h1", "second", ["B"])
    assert await store.program("h1") == "first"
    assert await store.programs_of() == [("A", ["h1"])]


async def test_every_workflow_is_listed_with_the_programs_that_define_it(store: Any) -> None:
    await store.register("w", 30_000, "c", {"python": "p1", "B": "h2"})
    await store.keep_program("h1", "one", ["B", "A"])
    await store.keep_program("h2", "two", ["B", "C"])
    assert await store.programs_of() == [("A", ["h1"]), ("B", ["h1", "h2"]), ("C", ["h2"])]
