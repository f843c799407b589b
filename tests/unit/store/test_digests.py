"""A schema that is not the one this version makes is refused at open, whatever its number says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import tenuto.store
from tenuto.errors import StoreRefusedError
from tenuto.store.digests import digest_of, names_of, plain
from tenuto.store.sqlite import SqliteStore

Execute = Callable[[str], Awaitable[None]]
Open = Callable[..., Any]

CHANGES = {
    "another state made it": "ALTER TABLE tenuto_meta DROP COLUMN digest",
    "an index is missing": "DROP INDEX executions_ready",
    "a column is missing": "ALTER TABLE schedules DROP COLUMN queue",
    "a column was added": "ALTER TABLE schedules ADD COLUMN mine TEXT",
    "an index is another": "DROP INDEX watchers_workflow; CREATE INDEX watchers_workflow ON watchers (op)",
    "a table is missing": "DROP TABLE step_details",
}


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Open, Execute]]:
    """How a store is opened, and how somebody changes it by hand."""
    if request.param == "sqlite":
        path = tmp_path / "app.db"

        async def change_file(sql: str) -> None:
            connection = apsw.Connection(str(path))
            connection.execute(sql)
            connection.close()

        yield lambda **options: SqliteStore(path, **options), change_file
        return
    url = request.getfixturevalue("postgres_url")
    import psycopg

    from tenuto.store.postgres import PostgresStore

    async def change_database(sql: str) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for statement in sql.split(";"):
                await connection.execute(statement.encode())

    yield lambda **options: PostgresStore(url, **options), change_database


async def opened(store: Any) -> None:
    await store.open()
    await store.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_store_that_is_not_as_this_version_makes_it_is_refused(
    place: tuple[Open, Execute], change: str
) -> None:
    """Opened to be written or read; nothing is changed by that."""
    store, execute = place
    await opened(store())
    await opened(store())
    await execute(CHANGES[change])
    for read_only in (False, True, False):
        with pytest.raises(StoreRefusedError, match=r"made by another state of version 1.*export the runs"):
            await opened(store(read_only=read_only))


async def test_what_others_have_added_beside_our_tables_is_theirs(place: tuple[Open, Execute]) -> None:
    store, execute = place
    await opened(store())
    await execute("CREATE TABLE reports (n INTEGER); CREATE INDEX report_by_name ON executions (target_name)")
    await opened(store())
    await opened(store(read_only=True))


async def test_the_schema_of_the_next_release_is_that_releases_to_judge(place: tuple[Open, Execute]) -> None:
    """P9: it adds to it, and says by `oldest_release` who may go on."""
    store, execute = place
    await opened(store())
    await execute(
        "ALTER TABLE schedules ADD COLUMN newer TEXT; UPDATE tenuto_meta SET schema_version = 2, oldest_release = 1"
    )
    await opened(store())


def test_comments_and_layout_are_no_part_of_a_schema() -> None:
    scripts = ["CREATE TABLE a ( -- one\n  b INTEGER\n);", "CREATE UNIQUE INDEX c ON a (b);"]
    assert plain(scripts[0]) == "CREATE TABLE a ( b INTEGER );"
    assert names_of(scripts) == ["a", "c"]
    rows = [("table", "a"), ("index", "c")]
    assert digest_of(scripts, rows) == digest_of([scripts[0].replace("one", "two"), scripts[1]], rows[::-1])
    assert digest_of(scripts, rows) != digest_of(scripts, rows[:1])


def test_a_released_migration_never_changes() -> None:
    """P9. Before the first release the file of hashes goes with the script; after it, add another script instead."""
    folder = Path(tenuto.store.__file__).parent / "migrations"
    found = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*.sql")
    }
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))
    golden = Path(__file__).parents[2] / "golden" / "migrations.txt"
    assert golden.read_text(encoding="utf-8") == text, "cd src/tenuto/store/migrations; sha256sum *.sql */*.sql"


# --- what is no store of ours


@pytest.mark.parametrize(
    "made", ["CREATE TABLE executions (x)", "CREATE TABLE a (x); CREATE INDEX executions_ready ON a (x)"]
)
async def test_a_file_with_tables_of_others_by_our_names_is_refused_and_left_as_it_is(
    tmp_path: Path, made: str
) -> None:
    path = tmp_path / "theirs.db"
    with closing(apsw.Connection(str(path))) as theirs:
        theirs.execute(made)
        before = list(theirs.execute("SELECT * FROM sqlite_schema"))
    with pytest.raises(StoreRefusedError, match=r"TN303(.|\n)*is not a Tenuto store"):
        await SqliteStore(path).open()
    with closing(apsw.Connection(str(path))) as theirs:
        assert list(theirs.execute("SELECT * FROM sqlite_schema")) == before


async def test_a_file_with_other_tables_of_others_takes_ours_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(apsw.Connection(str(path))) as theirs:
        theirs.execute("CREATE TABLE orders (x)")
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"not a database\n" * 100)
    for read_only in (False, True):
        with pytest.raises(StoreRefusedError, match="it is no SQLite database"):
            await SqliteStore(path, read_only=read_only).open()
    assert path.read_bytes() == b"not a database\n" * 100


async def test_a_store_whose_version_was_set_to_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tenuto.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with closing(apsw.Connection(str(path))) as theirs:
        theirs.execute("UPDATE tenuto_meta SET schema_version = 0")
    with pytest.raises(StoreRefusedError, match="is not a Tenuto store"):
        await SqliteStore(path).open()


async def test_a_schema_with_tables_of_others_by_our_names_is_refused(postgres_url: str) -> None:
    import psycopg

    from tenuto.store.postgres import PostgresStore

    with psycopg.connect(postgres_url, autocommit=True) as theirs:
        theirs.execute("CREATE TABLE queues (x int)")
    with pytest.raises(StoreRefusedError, match="is not a Tenuto store, and has queues of its own"):
        await PostgresStore(postgres_url).open()
