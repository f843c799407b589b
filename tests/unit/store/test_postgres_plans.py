"""How Postgres executes what is executed often: by an index, however the tables came to their size.

Plans are made once per connection. One that was made for an empty table reads all of it, and stays while it grows.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import Any, TypeAlias, cast
from urllib.parse import quote

import pytest

if find_spec("psycopg") is None and os.environ.get("TENUTO_REQUIRE") != "all":
    pytest.skip("the Postgres store needs psycopg, which is not installed", allow_module_level=True)

import psycopg

from tenuto.store.postgres import PostgresStore
from tenuto.store.postgres_connection import STATEMENTS
from tenuto.store.postgres_wire import dollars

Server: TypeAlias = "psycopg.AsyncConnection[Any]"
Plan: TypeAlias = dict[str, Any]

LARGE: list[str] = re.findall(
    r"\w+",
    """
    executions hooks step_details timer_tasks watchers workflow_execution_context workflow_inbox
    workflow_signals
    """,
)

# What happens in the life of every run, and what the loops of a worker do all the time.
OFTEN: list[str] = re.findall(
    r"\w+",
    """
    absorb all_rows begin_run begin_runs cancels_above claim_runs claim_tasks close_turns
    commit_row commit_rows commit_turns delete_mail delete_ranges delete_rows due_schedules empty_closed
    end_runs end_task fire_starts fire_timers get_run get_runs has_message has_signal has_suspects hook_owner
    insert_run insert_tasks
    lock_runs mail_of_runs next_deadline note_turns number_mail range_rows ranges_of_runs read_mail rows_of_runs
    run_on_turns send_signal start_alarms start_timers stop_timers suspend_turns timed_slice timers_of told_of wake
    """,
)

# What only who knows how large the tables are can plan well.
KNOWING = ["give_back_runs", "give_back_tasks", "lock_queues", "open_children", "queue_states"]

FILL = """
    INSERT INTO executions (id, type, target_name, queue, ready_at, status, lease_owner, created_at, completed_at)
    SELECT status || n, 'workflow', 'wf', 'default', now(), status, CASE status WHEN 'running' THEN 'w' || n % 5 END,
           now(), CASE status WHEN 'completed' THEN now() END
      FROM unnest(ARRAY['running', 'suspended', 'completed', 'pending']) AS status, generate_series(1, 1000) AS n;
    INSERT INTO executions (id, type, target_name, queue, ready_at, status, created_at, parent_workflow_id)
    SELECT 'resume' || n, 'task', 'builtin.resume_workflow', 'system', now(), 'pending', now(), 'suspended' || n
      FROM generate_series(1, 500) AS n;
    INSERT INTO executions (id, type, target_name, queue, ready_at, status, created_at, parent_workflow_id)
    SELECT 'task' || n, 'task', 'step', 'default', now(), 'pending', now(), 'suspended' || n
      FROM generate_series(1, 500) AS n;
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, metadata, created_at)
    SELECT 'timer' || n, now() + n * interval '1 second', 'suspended' || n, 'delay', 'nap', now()
      FROM generate_series(1, 1000) AS n;
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT id, n::text::bytea, 'value' FROM executions, generate_series(1, 3) AS n WHERE type = 'workflow';
    INSERT INTO workflow_inbox (workflow_id, seq, kind, message_id, name, data, at)
    SELECT id, 1, 'update', 'm', 'n', 'data', now() FROM executions WHERE type = 'workflow';
    INSERT INTO workflow_signals (workflow_id, signal_id) SELECT id, 's' FROM executions;
    INSERT INTO watchers (target_id, workflow_id, op) SELECT id, 'r', 'op' FROM executions;
    INSERT INTO hooks (token_hash, workflow_id, key) SELECT id, id, id FROM executions;
    INSERT INTO step_details (key, workflow_id, details, at) SELECT id, id, 'data', now() FROM executions;
"""


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(postgres_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def worker(store: PostgresStore, postgres_url: str) -> AsyncIterator[Server]:
    """A connection as the store has them, whose plans can be asked for."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute(STATEMENTS["set_up"], {"path": None})
        yield connection


@pytest.fixture
async def raw(store: PostgresStore, postgres_url: str) -> AsyncIterator[Server]:
    """A person at the database, where autovacuum does not come in between."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        for table in LARGE:
            await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        yield connection


async def vacuum(connection: Server) -> None:
    """What autovacuum does to tables that nothing is in."""
    for table in (*LARGE, "queues", "workers"):
        await connection.execute(f"VACUUM ANALYZE {table}".encode())


async def plan_of(connection: Server, name: str) -> Plan:
    """The plan a connection has for a statement, made now if it has none."""
    known = await connection.execute("SELECT 1 FROM pg_prepared_statements WHERE name = %s", (name,))
    statement = dollars(STATEMENTS[name])
    if await known.fetchone() is None:
        await connection.execute(f"PREPARE {name} AS ".encode() + statement.text)
    values = f"({', '.join('NULL' for _ in statement.names)})" if statement.names else ""
    explained = await connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name} {values}".encode())
    row = await explained.fetchone()
    assert row is not None
    return {"Node Type": "Statement", "Plans": [row[0][0]["Plan"]]}


def read_whole(plan: Plan) -> Iterator[str]:
    """The parts of a plan that read a large table from one end to the other."""
    for part in plan.get("Plans", ()):
        # One row of an index in its order is all that is read under a limit.
        if _is_unbounded(part) and plan["Node Type"] != "Limit":
            yield f"all of {part.get('Index Name', part.get('Relation Name'))}"
        if "Join Filter" in plan and _scanned(part) in LARGE:
            yield f"{_scanned(part)} joined by {plan['Join Filter']}"
        yield from read_whole(part)


def _is_unbounded(part: Plan) -> bool:
    match part["Node Type"]:
        case "Seq Scan":
            return part["Relation Name"] in LARGE
        case "Index Scan" | "Index Only Scan":
            return part["Relation Name"] in LARGE and "Index Cond" not in part
        case "Bitmap Index Scan":
            return part["Index Name"].startswith(tuple(LARGE)) and "Index Cond" not in part
        case _:
            return False


def _scanned(part: Plan) -> str | None:
    """The table that this side of a join is."""
    while len(part.get("Plans", ())) == 1 and "Relation Name" not in part:
        (part,) = part["Plans"]
    return cast("str | None", part.get("Relation Name"))


async def read_whole_by(connection: Server, names: list[str]) -> dict[str, list[str]]:
    found = {name: list(read_whole(await plan_of(connection, name))) for name in names}
    return {name: parts for name, parts in found.items() if parts}


async def test_what_is_done_often_finds_its_rows_by_an_index_even_if_it_was_planned_for_empty_tables(
    worker: Server, raw: Server
) -> None:
    await vacuum(raw)
    assert await read_whole_by(worker, OFTEN) == {}


async def test_plans_made_while_the_tables_were_empty_are_made_anew_when_they_have_grown(
    store: PostgresStore, worker: Server, raw: Server
) -> None:
    await vacuum(raw)
    before = await read_whole_by(worker, OFTEN + KNOWING)
    assert set(before) == set(KNOWING)
    await raw.execute(FILL)
    assert await read_whole_by(worker, OFTEN + KNOWING) == before  # a plan stays, whatever comes into the tables
    assert await store.update_statistics() == len(LARGE)
    assert await read_whole_by(worker, OFTEN + KNOWING) == {}


async def test_statistics_that_are_in_step_are_left_alone(store: PostgresStore, raw: Server) -> None:
    assert await store.update_statistics() == 0
    await raw.execute(FILL)
    await store.update_statistics()
    await raw.execute("DELETE FROM watchers")
    assert await store.update_statistics() == 0


async def test_rows_that_come_into_pages_that_others_left_are_noticed_too(store: PostgresStore, raw: Server) -> None:
    await raw.execute(FILL)
    await store.update_statistics()
    await raw.execute("DELETE FROM hooks")
    await raw.execute("VACUUM (ANALYZE, TRUNCATE off) hooks")
    await raw.execute("INSERT INTO hooks (token_hash, workflow_id, key) SELECT id, id, id FROM executions LIMIT 1000")
    await raw.execute("SELECT pg_stat_force_next_flush()")
    assert await store.update_statistics() == 1
    assert await store.update_statistics() == 0


async def test_many_that_wait_among_many_more_that_do_not_are_noticed(store: PostgresStore, raw: Server) -> None:
    """A table that has hardly grown, and its index of what waits, which was empty."""
    await raw.execute("""INSERT INTO executions (id, type, target_name, ready_at, status, created_at)
                         SELECT 'r' || n, 'workflow', 'wf', now(), 'running', now() FROM generate_series(1, 3000) n""")
    assert await store.update_statistics() == 1
    await raw.execute("UPDATE executions SET status = 'pending' WHERE id < 'r2'")
    assert await store.update_statistics() == 1
    assert await store.update_statistics() == 0


async def test_who_does_not_own_the_tables_says_so_once_and_goes_on(
    store: PostgresStore, raw: Server, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    role = f"guest_{os.getpid()}"
    await raw.execute(FILL)
    schema = await (await raw.execute("SELECT current_schema()")).fetchone()
    assert schema is not None
    for statement in (
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA {schema[0]} TO {role}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema[0]} TO {role}",
    ):
        await raw.execute(statement.encode())
    guest = PostgresStore(postgres_url + quote(f" -crole={role}"))
    try:
        await guest.open()
        with caplog.at_level(logging.WARNING, "tenuto.store"):
            assert [await guest.update_statistics() for _ in range(2)] == [0, 0]
        assert len(caplog.messages) == 1
        assert "executions, hooks" in caplog.messages[0]
    finally:
        await guest.close()
        await raw.execute(f"DROP OWNED BY {role}".encode())
        await raw.execute(f"DROP ROLE {role}".encode())


async def test_who_may_only_read_measures_nothing(store: PostgresStore, raw: Server, postgres_url: str) -> None:
    await raw.execute(FILL)
    reader = PostgresStore(postgres_url, read_only=True)
    await reader.open()
    assert await reader.update_statistics() == 0
    await reader.close()
