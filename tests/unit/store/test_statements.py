"""The statements: each is used, each can be prepared, and the ones that must be cheap are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

import tenuto.store
from tenuto.store.connection import STATEMENTS, Connection, Settings
from tenuto.store.schema import migrate
from tenuto.store.statements import load_statements, migrations

STORE = Path(tenuto.store.__file__).parent
SORTED_BY_AN_INDEX = ["due_timers", "pick_resumes", "pick_ready", "timed_slice", "find_runs", "range_rows"]
SORTED_BY_AN_INDEX += ["pick_partition", "pick_keyless", "page_runs"]
NOT_EXPLAINED = {"wal", "begin", "begin_exclusive", "begin_read", "commit", "rollback"}


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """A migrated file, open as the store opens it."""
    settings = Settings(tmp_path / "x.db", lambda: 1_000, "normal")
    connection = Connection(settings)
    connection.set_up()
    migrate(connection, settings)
    connection.close()
    database = apsw.Connection(str(tmp_path / "x.db"))
    database.create_scalar_function("tenuto_now", lambda: 1_000, 0)
    database.create_scalar_function("tenuto_token", bytes, 1)
    yield database
    database.close()


def plan(database: Any, name: str) -> str:
    """How SQLite would execute a statement."""
    text = "EXPLAIN QUERY PLAN " + STATEMENTS[name]
    names = re.findall(r":([a-z_]+)", text)
    values: Any = dict.fromkeys(names) if names else (None,) * len(set(re.findall(r"\?\d+", text)))
    return " | ".join(["plan", *(row[3] for row in database.execute(text, values))])


def test_every_statement_is_called_by_its_name_somewhere_and_none_is_missing() -> None:
    code = "\n".join(path.read_text("utf-8") for path in STORE.glob("*.py") if not path.name.startswith("postgres"))
    called = set(re.findall(r'\.(?:run|one|all|many|count|at_once|_ask)\(\s*"([a-z_]+)"', code))
    called |= {"sync_full", "sync_normal", "first_look"}  # chosen by a setting; before there is a connection of ours
    assert called == set(STATEMENTS)


@pytest.mark.parametrize("name", sorted(set(STATEMENTS)))
def test_every_statement_fits_the_schema(database: Any, name: str) -> None:
    if name in NOT_EXPLAINED or STATEMENTS[name].startswith(("PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK")):
        return
    assert plan(database, name)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("due_timers", "idx_timer_tasks_fire_at (fire_at<?)"),
        ("next_deadline", "idx_timer_tasks_fire_at"),
        ("pick_resumes", "SCAN r USING INDEX executions_resumes"),
        ("pick_ready", "executions_ready (queue=? AND type=?)"),
        ("ready_queues", "executions_ready (queue>?)"),
        ("absorb", "executions_one_pending_resume (parent_workflow_id=?)"),
        ("lost_runs", "executions_leased"),
        ("lost_tasks", "executions_leased"),
        ("mark_crowded", "executions_leased (lease_owner=?)"),
        ("suspects", "executions_suspects"),
        ("still_suspect", "executions_leased (lease_owner=?)"),
        ("timed_slice", "executions_timed (id>?)"),
        ("keyed", "executions_dedup (queue=? AND dedup_key=?)"),
        ("release_parked", "executions_parked (target_name=?)"),
        ("delete_old_answers", "workflow_inbox_answers (at<?)"),
        ("open_children", "executions_parent (parent_workflow_id=?)"),
        ("open_tasks", "executions_parent (parent_workflow_id=?)"),
        ("unlink_children", "executions_parent (parent_workflow_id=?)"),
        ("give_back_runs", "executions_leased (lease_owner=?)"),
        ("give_back_tasks", "executions_leased (lease_owner=?)"),
        ("range_rows", "PRIMARY KEY (workflow_id=? AND key>? AND key<?)"),
        ("find_runs", "executions_recent (type=? AND created_at<?)"),
        ("pick_partition", "executions_partition (queue=? AND partition_key=?)"),
        ("pick_keyless", "executions_ready (queue=? AND type=?)"),
        ("waiting_partitions", "executions_partition (queue=? AND partition_key>?)"),
        ("waiting_partitions", "executions_slots (queue=? AND partition_key=?)"),
        ("queue_states", "executions_slots (queue=?)"),
        ("queue_states", "queue_starts_at (queue=? AND at>?)"),
        ("flagged_tasks", "executions_leased (lease_owner=?)"),
        ("page_runs", "sqlite_autoindex_executions_1 (id>?)"),
    ],
)
def test_what_is_done_often_finds_its_rows_by_an_index(database: Any, name: str, index: str) -> None:
    """R030, R043: the cost of a claim or a timer is that of what is due, not of what exists."""
    assert index in plan(database, name)


@pytest.mark.parametrize("name", SORTED_BY_AN_INDEX)
def test_what_is_limited_is_not_sorted_first(database: Any, name: str) -> None:
    """R030, R043: with a sort, a limit would read everything."""
    assert "TEMP B-TREE" not in plan(database, name)


def test_no_statement_scans_a_whole_table(database: Any) -> None:
    allowed = {"all_runs", "delete_lost_workers", "read_meta", "set_meta", "has_meta", "next_deadline", "programs_of"}
    allowed |= {"read_digest", "set_digest", "catalog"}  # one row; the schema
    allowed |= {"limited_queues", "list_queues", "queue_states"}  # a queue that was told something is a row, few are
    allowed |= {
        "all_schedules",
        "defined",
        "identity",
        "drop_background",
        "drop_lost_background",
    }  # lists, and tables of one or four rows
    for name in sorted(set(STATEMENTS) - allowed):
        if name in NOT_EXPLAINED or STATEMENTS[name].startswith(("PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK")):
            continue
        scans = [step for step in plan(database, name).split(" | ") if step.startswith("SCAN ")]
        fine = ("json_each", "waiting", "CONSTANT", "VIRTUAL", "workers", "executions_ready", "executions_leased")
        fine += ("executions_resumes", "executions_suspects", "VALUES CLAUSE")  # up to a limit; few; what it was given
        assert [scan for scan in scans if not any(word in scan for word in fine)] == [], name


def test_the_type_alone_finds_nothing_but_lists(database: Any) -> None:
    """Nearly every row is of one type: an index that begins with it is a scan in disguise."""
    explained = {name for name in STATEMENTS if STATEMENTS[name].startswith(("SELECT", "UPDATE", "DELETE", "WITH"))}
    by_type = {name for name in explained if "executions_recent (type=?)" in plan(database, name)}
    assert by_type == {"all_runs", "count_runs"}


def test_a_statement_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two.sql").write_text("-- a: x\nSELECT 1;\n\n-- a: y\nSELECT 2\n")
    monkeypatch.setattr("tenuto.store.statements.files", lambda _: tmp_path)
    with pytest.raises(ValueError, match="two statements 'a'"):
        load_statements("two.sql")


def test_every_statement_says_what_it_does() -> None:
    for block in re.split(r"\n{2,}", (STORE / "sqlite.sql").read_text("utf-8"))[1:]:
        if re.fullmatch(r"-- [A-Z][^\n]*\.\n?", block):
            continue  # a heading
        assert re.match(r"-- [a-z0-9_]+: \S.{8,}", block), block


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_no_update_of_postgres_takes_its_rows_from_a_union() -> None:
    """For a row that changed since the statement began, Postgres asks the parts of such a union again, outside of what
    the statement has locked and deleted: a claim then took a wake-up and not its run. A part of its own (WITH) is kept.
    """
    for name, text in load_statements("postgres.sql").items():
        for update in re.finditer(r"\bUPDATE \w+ \w+\s+SET\b.*?(?=\bRETURNING\b|\)\s*,\s*\n|\Z)", text, re.DOTALL):
            assert "UNION" not in update[0], name
