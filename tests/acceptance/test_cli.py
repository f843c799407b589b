"""Every command for real, on a SQLite file, with workers in processes of their own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from tenuto.cli import main
from tenuto.model.registry import default
from tenuto.store.sqlite import SqliteStore

pytestmark = pytest.mark.slow

APP = """
import asyncio, os, time
from pathlib import Path
from tenuto import Reject, Reply, Stop, Update, publish_state, receive, sleep, step, wait_for_signal, workflow

@step
async def reserve(n: int) -> str:
    return f"reserved {n}"

@step
async def charge(n: int) -> str:
    return f"charged {n}"

@workflow
async def checkout(n: int) -> list[str]:
    done = [await reserve(n), await charge(n)]
    who = await wait_for_signal("approve")
    return [*done, f"approved by {who}"]

@workflow
async def subscription(n: int) -> str:
    receipt = await charge(n)
    await sleep("30 days")
    return receipt

@checkout.query("upper")
def upper(state, suffix: str = "") -> str:
    return str(state).upper() + suffix

@workflow
async def cart() -> list[str]:
    publish_state("open")
    received = await receive([], updates={"add": add}, signals={"close": close})
    return received.state

async def add(state: list[str], item: str) -> Reply[list[str]]:
    if item == "bomb":
        raise ValueError("not that")
    return Reply(len(state) + 1, [*state, item])

async def close(state: list[str]) -> Stop[list[str]]:
    return Stop(state)

@step(max_attempts=1)
async def fragile(path: str) -> str:
    if not Path(path).exists():
        raise OSError("it is not there yet")
    return Path(path).read_text()

@workflow
async def reading(path: str) -> str:
    return await fragile(path)

@step
async def hang() -> str:
    await asyncio.sleep(3600)
    return "late"

@workflow
async def hanging() -> str:
    return await hang()
"""


def _hear_interrupts() -> None:
    """A shell lets what it starts in the background ignore them, and so on down to us."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Shell:
    """A folder with an app and a store, and `tenuto` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "shop.db"
        (folder / "pyproject.toml").write_text("[tool.tenuto]\n", encoding="utf-8")
        self.write_app(APP)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TENUTO")},
            "TENUTO_URL": f"sqlite:///{self.file}",
            "TENUTO_APP": "shop.py",
            "COLUMNS": "100",
        }

    def write_app(self, text: str) -> None:
        (self.folder / "shop.py").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, app: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
        """A command in this process; with the app's code, which may change meanwhile, in one of its own."""
        if not app:
            with contextlib.chdir(self.folder):
                given: dict[str, str | None] = {**self.env, **env, "TENUTO_APP": None}
                done = CliRunner().invoke(main, list(arguments), env=given)
            return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
        return subprocess.run(
            [sys.executable, "-m", "tenuto.cli", *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def ok(self, *arguments: str, app: bool = False, **env: str) -> str:
        done = self.run(*arguments, app=app, **env)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tenuto.cli", *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_hear_interrupts,
        )

    def until(self, reached: Callable[[], bool], what: str, seconds: float = 60) -> None:
        limit = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < limit, f"it never came to this: {what}"
            time.sleep(0.05)

    def status(self, run: str) -> str:
        """Looked up beside the commands: hundreds of processes only to wait would take minutes."""
        return next((status for (status,) in self.select("SELECT status FROM executions WHERE id = ?", run)), "")

    def workers(self) -> set[str]:
        return {worker for (worker,) in self.select("SELECT id FROM workers")}

    def select(self, statement: str, *values: str) -> list[Any]:
        if not self.file.is_file():
            return []
        db = apsw.Connection(str(self.file), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5_000)
        try:
            return list(db.execute(statement, values))
        except apsw.SQLError:  # its first worker is only now making the tables
            return []
        finally:
            db.close()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Commands run in this process, which knows nothing of other tests' definitions, as a shell's process would not."""
    monkeypatch.setattr(default, "_by_id", {})
    return Shell(tmp_path)


@pytest.fixture
def worker(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    process = shell.start("worker", "--lease", "2s", "--grace", "1s")
    assert process.stderr is not None
    assert "worker is ready" in process.stderr.readline()
    yield process
    process.kill()
    process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a process says, up to and with the line that has this text."""
    assert process.stderr is not None
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, f"it ended without saying {text!r}: {said}"
        said += line
    return said


# --- the life of a run


@pytest.mark.usefixtures("worker")
def test_a_run_is_started_signalled_and_seen_to_its_end(shell: Shell) -> None:
    assert shell.ok("start", "checkout", "7", "--id", "order-7", "--attribute", "shop=vienna") == "order-7\n"
    shell.until(lambda: shell.status("order-7") == "suspended", "suspended")
    assert "signal 'approve'" in shell.ok("show", "order-7", app=True)
    assert (
        shell.ok("start", "workflow//shop.py//checkout", "7", "--id", "order-7") == "order-7\n"
    )  # the same start again
    assert "stored" in shell.ok("signal", "order-7", "approve", '"Ada"')
    result = shell.json("start", "workflow//shop.py//checkout", "7", "--id", "order-7", "--wait", "--timeout", "20s")
    assert result["result"] == ["reserved 7", "charged 7", "approved by Ada"]
    (run,) = shell.json("runs", "--attribute", "shop=vienna")
    assert run["status"] == "completed"


@pytest.mark.usefixtures("worker")
def test_updates_are_answered_and_refusals_are_exit_code_1(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//cart", "--id", "cart-1")
    assert shell.ok("update", "cart-1", "add", '"violin"', "--retry-for", "10s") == "1\n"
    refused = shell.run("update", "cart-1", "nosuch", "--timeout", "20s")
    assert refused.returncode == 1
    assert refused.stderr.startswith("TN210 ")
    failed = shell.run("update", "cart-1", "add", '"bomb"', "--timeout", "20s")
    assert failed.returncode == 1
    assert "TN211" in failed.stderr or "not that" in failed.stderr
    shell.ok("signal", "cart-1", "close")
    assert json.loads(shell.ok("start", "workflow//shop.py//cart", "--id", "cart-1", "--wait", "--timeout", "20s")) == [
        "violin"
    ]


@pytest.mark.usefixtures("worker")
def test_a_failed_run_is_recovered(shell: Shell) -> None:
    failed = shell.run(
        "start", "workflow//shop.py//reading", '"late.txt"', "--id", "read", "--wait", "--timeout", "20s"
    )
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("  because")
    (shell.folder / "late.txt").write_text("here now", encoding="utf-8")
    assert "goes on" in shell.ok("recover", "read")
    assert (
        shell.ok("start", "workflow//shop.py//reading", '"late.txt"', "--id", "read", "--wait", "--timeout", "20s")
        == '"here now"\n'
    )
    again = shell.run("recover", "read")
    assert again.returncode == 3
    assert again.stderr.startswith("TN208 ")


@pytest.mark.usefixtures("worker")
def test_a_run_is_rewound_and_goes_through_the_same_again(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "r")
    shell.until(lambda: shell.status("r") == "suspended", "suspended")
    assert "goes on from charge" in shell.ok("rewind", "r", "--to", "charge")
    shell.until(lambda: len(shell.json("show", "r")["history"]) == 2, "charged again")
    refused = shell.run("rewind", "r", "--to", "nowhere")
    assert refused.returncode == 3
    assert refused.stderr.startswith("TN209 ")
    assert shell.run("rewind", "r", "--to", "a~b~c").returncode == 2


@pytest.mark.usefixtures("worker")
def test_a_hanging_step_is_given_its_result(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//hanging", "--id", "h")
    shell.until(lambda: shell.status("h") == "running", "running")
    shell.ok("supply", "h", "hang", '"given"')
    assert shell.ok("start", "workflow//shop.py//hanging", "--id", "h", "--wait", "--timeout", "20s") == '"given"\n'
    assert "supplied" in shell.ok("show", "h")


@pytest.mark.usefixtures("worker")
def test_runs_are_paused_resumed_woken_cancelled_and_terminated(shell: Shell) -> None:
    for name in ("a", "b"):
        shell.ok("start", "workflow//shop.py//checkout", "1", "--id", name)
        shell.until(lambda name=name: shell.status(name) == "suspended", "suspended")  # type: ignore[misc]
    shell.ok("pause", "a")
    assert shell.status("a") == "paused"
    shell.ok("resume", "a")
    assert shell.status("a") in ("suspended", "running")
    shell.ok("wake", "a")
    shell.ok("cancel", "a", "--reason", "enough", "--within", "5s")
    shell.until(lambda: shell.status("a") == "cancelled", "cancelled")
    shell.ok("terminate", "b", "--reason", "enough")
    assert shell.status("b") == "terminated"
    again = shell.run("terminate", "b")
    assert again.returncode == 3
    assert again.stderr.startswith("TN205 ")


def test_several_processes_work_and_leave_together(shell: Shell) -> None:
    group = shell.start("worker", "--processes", "2", "--queues", "default", "--grace", "1s")
    try:
        shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "x")
        shell.until(lambda: shell.status("x") == "suspended", "suspended")
        shell.until(lambda: len(shell.workers()) == 2, "two workers")
        assert [worker["queues"] for worker in shell.json("doctor")["workers"]] == [["default"], ["default"]]
    finally:
        group.send_signal(signal.SIGTERM)
        group.communicate(timeout=30)
    assert group.returncode == 0
    assert shell.workers() == set()


def test_a_worker_told_once_finishes_its_step_and_told_twice_leaves_at_once(shell: Shell) -> None:
    """R067: either way it gives back what it has, so the next worker goes on without waiting for a lease."""
    shell.ok("start", "workflow//shop.py//hanging", "--id", "h")
    worker = shell.start("worker", "--grace", "1h", "--lease", "1h")
    try:
        shell.until(lambda: shell.status("h") == "running", "running")
        worker.send_signal(signal.SIGTERM)
        read_until(worker, "finishing what is under way")
        assert shell.status("h") == "running"
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=30)
    finally:
        worker.kill()
        worker.communicate()
    assert "told again" in said
    assert worker.returncode == 0
    assert shell.status("h") == "suspended"
    assert shell.workers() == set()


def test_a_worker_that_cannot_load_its_code_says_where_and_ends(shell: Shell) -> None:
    shell.write_app("import nothing_of_this_name\n")
    done = shell.run("worker", "--processes", "2", app=True)
    assert done.returncode == 5
    assert "ModuleNotFoundError" in done.stderr
    assert "shop.py:1" in done.stderr
    assert "Traceback" not in done.stderr


# --- dev


def test_dev_takes_over_a_change_and_goes_on_with_the_same_run(shell: Shell) -> None:
    """The run waits; the code behind the wait changes; the next worker goes on with the new code."""
    dev = shell.start("dev", "shop.py", "--grace", "1s")
    try:
        shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "d")
        shell.until(lambda: shell.status("d") == "suspended", "suspended")
        before = shell.workers()
        shell.write_app(APP.replace("approved by {who}", "approved, with the new code, by {who}"))
        shell.until(lambda: bool(shell.workers() - before), "a worker with the new code")
        shell.ok("signal", "d", "approve", '"Ada"')
        done = shell.json("start", "workflow//shop.py//checkout", "1", "--id", "d", "--wait", "--timeout", "30s")
        assert done["result"][-1] == "approved, with the new code, by Ada"
    finally:
        dev.send_signal(signal.SIGINT)
        _, said = dev.communicate(timeout=30)
    assert "changed: shop.py" in said
    assert "worker has left" in said


def test_dev_waits_for_the_next_change_when_the_code_is_broken(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "d")
    dev = shell.start("dev", "shop.py", "--grace", "1s")
    try:
        shell.until(lambda: shell.status("d") == "suspended", "suspended")
        shell.write_app("this is not Python\n")
        said = read_until(dev, "the code cannot be loaded")
        assert shell.workers() == set()
        shell.write_app(APP)
        shell.until(lambda: bool(shell.workers()), "a worker again")
    finally:
        dev.send_signal(signal.SIGTERM)
        _, rest = dev.communicate(timeout=30)
    assert "Traceback" not in said + rest


# --- check


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A store with 200 open runs of two workflows."""
    shell = Shell(tmp_path_factory.mktemp("busy"))
    (shell.folder / "fill.py").write_text(FILL, encoding="utf-8")
    subprocess.run([sys.executable, "fill.py"], cwd=shell.folder, env=shell.env, check=True, timeout=120)
    yield shell
    for definition in (*default.definitions("workflow"), *default.definitions("step")):
        if "//shop.py//" in definition.id:
            default.forget(definition.id)
    sys.modules.pop("shop", None)


FILL = """
import asyncio, os
from tenuto import Tenuto
import shop

async def main():
    async with Tenuto(os.environ["TENUTO_URL"]) as app:
        for n in range(100):
            await app.start(shop.checkout, n, id=f"checkout-{n:03}")
            await app.start(shop.subscription, n, id=f"subscription-{n:03}")
        while len([run async for run in app.runs(status="suspended", limit=500)]) < 200:
            await asyncio.sleep(0.02)

asyncio.run(main())
"""


def contents(file: Path) -> tuple[str, str]:
    """The file's bytes, and every row of every table."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    rows = [list(db.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2')) for name in names]  # noqa: S608  # our own tables
    db.close()
    return hashlib.sha256(file.read_bytes()).hexdigest(), hashlib.sha256(repr(rows).encode()).hexdigest()


CHANGES = {
    "untouched": (APP, set(), ""),
    "comments": (APP.replace("@workflow", "# as before\n@workflow"), set(), ""),
    "removed": (
        APP.replace("done = [await reserve(n), await charge(n)]", "done = [await charge(n)]"),
        {"checkout"},
        "reserve",
    ),
    "renamed": (
        APP.replace("charge(n)", "bill(n)").replace("def charge(", "def bill("),
        {"checkout", "subscription"},
        "charge",
    ),
    "inserted": (APP.replace("who = await", "await reserve(0)\n    who = await"), set(), ""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_check_finds_what_would_diverge_and_writes_nothing(change: str, busy: Shell) -> None:
    text, affected, place = CHANGES[change]
    before = contents(busy.file)
    busy.write_app(text)
    try:
        checked = busy.run("check", "--against", busy.env["TENUTO_URL"], "--json", app=True)
        shown = busy.run("check", app=True)
    finally:
        busy.write_app(APP)
    assert contents(busy.file) == before
    report = json.loads(checked.stdout)
    assert report["runs"] == 200
    assert checked.returncode == shown.returncode == (1 if affected else 0), checked.stderr
    assert {finding["workflow"].rpartition("/")[2] for finding in report["findings"]} == affected
    assert len(report["findings"]) == 100 * len(affected)
    assert {finding["code"] for finding in report["findings"]} <= {"TN104"}
    for finding in report["findings"]:
        assert finding["location"] == place
        assert finding["recorded"] == "a step"
    assert (f"{200 - 100 * len(affected)} fit" in shown.stdout) is (len(affected) < 2)


def test_runs_of_workflows_that_are_gone_are_findings_unless_only_known_ones_count(busy: Shell) -> None:
    busy.write_app("from tenuto import workflow\n@workflow\nasync def other() -> None: ...\n")
    try:
        found = busy.run("check", app=True)
        ignored = busy.run("check", "--known-only", app=True)
    finally:
        busy.write_app(APP)
    assert found.returncode == 1
    assert "200 of unknown workflows" in found.stdout
    assert ignored.returncode == 0


TWF_APP = '''
from tenuto.twf import Bindings, load_program

b = Bindings()

@b.activity("Pack")
async def pack(item: str) -> str:
    return f"{item}, packed"

load_program(files={"ship.twf": """
workflow Ship(item: string) -> (string):
    activity Pack(item) -> packed
    await timer(30d)
    close packed

activity Pack(item: string) -> (string):
    # bound above
"""}, bindings=b)
'''


def test_runs_of_twf_programs_keep_their_text_and_so_fit_a_changed_one(shell: Shell) -> None:
    """The text a run started with is in the store: a deploy does not touch it, and the check knows that."""
    shell.write_app(TWF_APP)
    worker = shell.start("worker", "--grace", "1s")
    try:
        shell.ok("start", "Ship", '"violin"', "--id", "s", app=True)
        shell.until(lambda: shell.status("s") == "suspended", "suspended")
    finally:
        worker.terminate()
        worker.communicate()
    assert "1 fit" in shell.ok("check", app=True)
    shell.write_app(TWF_APP.replace("    activity Pack(item) -> packed\n", "    packed = item\n"))
    before = contents(shell.file)
    assert "1 fit" in shell.ok("check", app=True)
    assert contents(shell.file) == before


def test_a_check_says_what_prevents_names_from_being_listed(shell: Shell) -> None:
    """K136: with the line; it is no finding about a run"""
    app = "from tenuto import sleep, workflow\n@workflow\nasync def other(thing):\n    await thing.go()\n"
    shell.write_app(f"{app}@workflow\nasync def listed(thing):\n    thing.go()\n    await sleep(1)\n")
    shell.ok("start", "listed", "1", "--id", "r", app=True)
    shown = shell.run("check", app=True)
    report = json.loads(shell.run("check", "--json", app=True).stdout)
    only = json.loads(shell.run("check", "--json", "--workflow", "listed", app=True).stdout)
    assert shown.returncode == 0, shown.stderr
    assert "shop.py:4:11: DIR408 " in shown.stdout
    assert "thing.go() is awaited, and its code cannot be found" in shown.stdout
    assert [(found["code"], found["line"]) for found in report["warnings"]] == [("DIR408", 4)]
    assert only["warnings"] == []


def test_a_check_without_code_is_a_wrong_command_line(busy: Shell) -> None:
    done = busy.run("check")
    assert done.returncode == 2
    assert "--app" in done.stderr


# --- export and import


@pytest.mark.usefixtures("worker")
def test_a_run_is_taken_to_another_store_and_replayed_there(shell: Shell, tmp_path: Path) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "7", "--id", "order-7")
    shell.until(lambda: shell.status("order-7") == "suspended", "suspended")
    exported = shell.run("export", "order-7", "order.json")
    assert exported.returncode == 0
    assert "nothing was redacted" in exported.stderr
    file = tmp_path / "order.json"
    assert file.stat().st_mode & 0o077 == 0
    assert shell.run("export", "order-7", "order.json").returncode == 2  # it is there already
    local = {"TENUTO_URL": "sqlite:///laptop.db"}
    taken = shell.run("import", "order.json", "--replay", app=True, **local)
    assert taken.returncode == 0, taken.stderr
    assert "the code fits" in taken.stdout
    assert json.loads(shell.ok("explain", "order-7", "--json", **local))["status"] == "paused"
    assert (
        json.loads(shell.ok("show", "order-7", "--json", **local))["history"]
        == shell.json("show", "order-7")["history"]
    )
    assert shell.run("import", "order.json", **local).returncode == 3  # its id is taken
    shell.write_app(APP.replace("await reserve(n), ", ""))
    diverged = shell.run("import", "order.json", "--id", "again", "--replay", app=True, **local)
    assert diverged.returncode == 1
    assert "reserve" in diverged.stdout + diverged.stderr


def test_an_imported_run_goes_on_where_it_was_once_it_is_resumed(shell: Shell) -> None:
    worker = shell.start("worker", "--grace", "1s")
    shell.ok("start", "workflow//shop.py//checkout", "7", "--id", "order-7")
    shell.until(lambda: shell.status("order-7") == "suspended", "suspended")
    shell.ok("pause", "order-7")
    shell.ok("signal", "order-7", "approve", '"Ada"')  # not taken yet: it travels, too
    worker.terminate()
    worker.communicate()
    shell.ok("export", "order-7", "order.json")
    local = {"TENUTO_URL": "sqlite:///laptop.db"}
    shell.ok("import", "order.json", **local)
    shell.ok("resume", "order-7", **local)
    shell.env |= local
    second = shell.start("worker", "--grace", "1s")
    try:
        done = shell.json("start", "workflow//shop.py//checkout", "7", "--id", "order-7", "--wait", "--timeout", "20s")
    finally:
        second.terminate()
        second.communicate()
    assert done["result"] == ["reserved 7", "charged 7", "approved by Ada"]


def test_an_exported_run_is_a_recording_for_tests(busy: Shell) -> None:
    from tenuto.testing import Recorded

    busy.ok("export", "checkout-001", "recorded.json", "--force")
    recorded = Recorded.read(busy.folder / "recorded.json")
    assert recorded.id == "checkout-001"
    assert recorded.target == "workflow//shop.py//checkout"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "tenuto-run", "version": 99}', '{"format": "tenuto-run", "version": 1, "id": "x"}'],
)
def test_a_file_that_is_no_exported_run_is_refused(text: str, shell: Shell) -> None:
    (shell.folder / "bad.json").write_text(text, encoding="utf-8")
    done = shell.run("import", "bad.json")
    assert done.returncode == 4
    assert done.stderr.startswith("TN306 ")
    assert "Traceback" not in done.stderr


# --- Postgres


def test_the_same_commands_work_on_postgres(shell: Shell, postgres_url: str) -> None:
    shell.env["TENUTO_URL"] = postgres_url
    nothing = shell.run("runs")
    assert nothing.returncode == 4  # looking makes no tables
    assert nothing.stderr.startswith("TN303 ")
    worker = shell.start("worker", "--grace", "1s")
    try:
        read_until(worker, "worker is ready")
        assert shell.ok("start", "checkout", "7", "--id", "order-7") == "order-7\n"
        shell.until(lambda: bool(shell.json("runs", "--status", "suspended")), "suspended")
        assert "1 fit" in shell.ok("check", app=True)
        shell.ok("export", "order-7", "order.json")
        refused = shell.run("import", "order.json", "--id", "again")
        assert refused.returncode == 3
        assert refused.stderr.startswith("TN220 ")
        shell.ok("signal", "order-7", "approve", '"Ada"')
        shell.until(lambda: bool(shell.json("runs", "--status", "completed")), "completed")
        assert "approved by Ada" in shell.ok("show", "order-7")
        report = shell.json("doctor")
        assert (report["store"]["reachable"], len(report["workers"])) == (True, 1)
    finally:
        worker.terminate()
        worker.communicate()


# --- sealed stores

KEYS = """
from tenuto import Encryption
codec = Encryption({"k1": bytes(range(32))})
"""


def test_a_store_with_encrypted_values_is_worked_on_with_its_codec(shell: Shell) -> None:
    (shell.folder / "vault.py").write_text(KEYS, encoding="utf-8")
    shell.env["TENUTO_CODEC"] = "vault:codec"
    worker = shell.start("worker", "--grace", "1s")
    try:
        shell.ok("start", "checkout", "7", "--id", "secret", app=True)
        shell.until(lambda: shell.status("secret") == "suspended", "suspended")
        page = json.loads(shell.ok("show", "secret", "--json", app=True))
        assert [entry["value"] for entry in page["history"]] == ["reserved 7", "charged 7"]
        assert "1 fit" in shell.ok("check", app=True)
        del shell.env["TENUTO_CODEC"]
        blind = shell.run("show", "secret", app=True)
        assert blind.returncode == 4
        assert blind.stderr.startswith("TN30")
        assert "Traceback" not in blind.stderr
        assert b"charged 7" not in shell.file.read_bytes()
    finally:
        worker.terminate()
        worker.communicate()
    wrong = shell.run("show", "secret", "--codec", "vault:nosuch", app=True)
    assert wrong.returncode == 5
    assert shell.run("show", "secret", "--codec", "vault", app=True).returncode == 2


# --- doctor, bench, demo, schedules


def test_the_doctor_says_what_the_installation_weighs_and_how_the_store_is(busy: Shell) -> None:
    report = busy.json("doctor")
    assert report["ok"] is True
    assert report["install"]["packages"] <= 18
    assert report["install"]["megabytes"] <= 40
    assert 0 < report["install"]["import_seconds"] < 5
    assert report["store"]["reachable"] is True
    assert report["store"]["schema"] == report["store"]["known_schema"]
    assert report["store"]["sync"] == "full"
    assert report["runs"]["open"] == {"suspended": 200}
    assert "all is well" in busy.ok("doctor")


def test_the_doctor_finds_parked_runs_and_a_store_that_cannot_be_read(busy: Shell, shell: Shell) -> None:
    busy.write_app(APP.replace("charge(n)", "bill(n)").replace("def charge(", "def bill("))
    worker = busy.start("worker", "--grace", "1s")
    try:
        busy.ok("wake", "checkout-002")
        busy.until(lambda: busy.status("checkout-002") == "parked", "parked")
    finally:
        worker.terminate()
        worker.communicate()
        busy.write_app(APP)
    sick = busy.run("doctor")
    assert sick.returncode == 1
    assert "parked runs: 1;" in sick.stdout
    shell.file.write_text("this is no database", encoding="utf-8")
    broken = shell.run("doctor", "--json")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["store"]["reachable"] is False


def test_the_bench_measures_in_a_few_seconds(shell: Shell) -> None:
    measured = json.loads(shell.ok("bench", "--json", app=True))
    assert set(measured) == {"steps", "start", "update", "replay"}
    assert all(measure["value"] > 0 for measure in measured.values())


def test_the_demo_kills_a_worker_and_shows_what_was_reused(shell: Shell) -> None:
    """Under 30 s; nothing runs twice; the file stays behind and can be looked at."""
    began = time.monotonic()
    said = shell.ok("demo", app=True)
    assert time.monotonic() - began < 30
    assert "killed with SIGKILL" in said
    assert said.count("reused") == 2
    assert said.count("ran in") == 3
    (run,) = json.loads(shell.ok("runs", "--json", "--url", "sqlite:///.tenuto/demo.db"))
    assert (run["id"], run["status"]) == ("order-42", "completed")
    assert shell.ok("demo", app=True).count("ran in") == 3  # and again


def test_the_demo_removes_only_what_a_demo_left(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "mine")
    for name in ("shop.db", "shop.py"):
        refused = shell.run("demo", "--database", name)
        assert refused.returncode == 2
        assert "name another file" in refused.stderr
    assert shell.status("mine") == "pending"


NIGHTLY = """
import asyncio, os
from tenuto import Tenuto
import shop

async def main():
    async with Tenuto(os.environ["TENUTO_URL"], worker=False) as app:
        await app.schedule("nightly", shop.checkout.bind(1), cron="0 2 * * *", tz="Europe/Vienna")
        await app.schedule("often", shop.checkout.bind(2), every="90s")

asyncio.run(main())
"""


def test_schedules_are_listed_paused_resumed_and_deleted(shell: Shell) -> None:
    (shell.folder / "nightly.py").write_text(NIGHTLY, encoding="utf-8")
    subprocess.run([sys.executable, "nightly.py"], cwd=shell.folder, env=shell.env, check=True, timeout=60)
    assert [item["name"] for item in shell.json("schedules", "list")] == ["nightly", "often"]
    assert "0 2 * * * (Europe/Vienna)" in shell.ok("schedules")
    shell.ok("schedules", "pause", "nightly")
    assert [item["paused"] for item in shell.json("schedules", "list")] == [True, False]
    shell.ok("schedules", "resume", "nightly")
    assert [item["paused"] for item in shell.json("schedules", "list")] == [False, False]
    shell.ok("schedules", "delete", "often")
    assert [item["name"] for item in shell.json("schedules", "list")] == ["nightly"]
    for verb in ("pause", "resume", "delete"):
        unknown = shell.run("schedules", verb, "nobody")
        assert unknown.returncode == 3, unknown.stderr
        assert unknown.stderr.startswith("TN2")


# --- bad input: one message with its code, the right exit code, never a traceback

BAD = [
    (["show", "nobody"], 3, "TN204"),
    (["explain", "nobody"], 3, "TN204"),
    (["signal", "nobody", "go"], 3, "TN204"),
    (["update", "nobody", "go"], 3, "TN204"),
    (["query", "nobody", "upper"], 3, "TN204"),
    (["cancel", "nobody"], 3, "TN204"),
    (["terminate", "nobody"], 3, "TN204"),
    (["pause", "nobody"], 3, "TN204"),
    (["resume", "nobody"], 3, "TN204"),
    (["wake", "nobody"], 3, "TN204"),
    (["recover", "nobody"], 3, "TN204"),
    (["rewind", "nobody", "--to", "charge"], 3, "TN204"),
    (["supply", "nobody", "charge", "1"], 3, "TN204"),
    (["export", "nobody", "-"], 3, "TN204"),
    (["start", "nosuch"], 3, "TN215"),
    (["check", "--workflow", "nosuch"], 3, "TN215"),
    (["query", "checkout-000", "nosuch"], 3, "TN212"),
    (["start", "workflow//shop.py//checkout", "not json"], 2, "is not JSON"),
    (["signal", "checkout-000", "go", "{"], 2, "is not JSON"),
    (["supply", "checkout-000", "charge", "NaN"], 2, "is not JSON"),
    (["start", "workflow//shop.py//checkout", "1", "--attribute", "novalue"], 2, "NAME=VALUE"),
    (["start", "workflow//shop.py//checkout", "1", "--id", ""], 2, "TN217"),
    (["start", "workflow//shop.py//checkout", "2", "--id", "checkout-000"], 3, "TN206"),
    (["runs", "--url", "mysql://x"], 2, "TN221"),
    (["runs", "--url", "sqlite:///nowhere/x.db"], 4, "TN301"),
    (["signal", "x", "y", "--url", "sqlite:///nowhere/x.db"], 4, "TN301"),
    (["runs", "--url", "sqlite:///shop.py"], 4, "TN303"),
    (["runs", "--since", "soon"], 2, "not a duration"),
    (["runs", "--status", "happy"], 2, "happy"),
    (["runs", "--app", "nosuch.py"], 5, "there is no file"),
    (["runs", "--app", "no_such_module"], 5, "ModuleNotFoundError"),
    (["nosuch"], 2, "nosuch"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "says"), BAD, ids=lambda value: None if isinstance(value, int) else str(value)
)
def test_bad_input_is_one_message_and_an_exit_code(
    arguments: list[str], code: int, says: str, busy: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("path", "meta_path"):  # what loading code does to this process is undone
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.chdir(busy.folder)
    done = CliRunner().invoke(main, arguments, env=busy.env)
    assert done.exit_code == code, done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (busy.folder / "nowhere").exists()


def test_arguments_that_do_not_fit_are_refused_and_nothing_is_stored(shell: Shell) -> None:
    for values in ([], ["1", "2"]):
        refused = shell.run("start", "checkout", *values, "--id", "x", app=True)
        assert refused.returncode == 2
        assert "workflow 'checkout': " in refused.stderr
        assert "Traceback" not in refused.stderr
    assert shell.run("show", "x").returncode == 3


def test_a_locked_store_is_said_to_be_locked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "x")
    monkeypatch.setitem(SqliteStore.__init__.__kwdefaults__, "busy_ms", 10)
    monkeypatch.setitem(SqliteStore.__init__.__kwdefaults__, "busy_limit_ms", 50)
    other = apsw.Connection(str(shell.file))
    other.execute("BEGIN IMMEDIATE")
    try:
        done = CliRunner().invoke(main, ["signal", "x", "go", "--url", shell.env["TENUTO_URL"]])
        looked = CliRunner().invoke(main, ["runs", "--json", "--url", shell.env["TENUTO_URL"]])
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert done.exit_code == 4
    assert done.stderr.startswith("TN301 ")
    assert "locked" in done.stderr
    assert [run["id"] for run in json.loads(looked.stdout)] == ["x"]  # looking does not wait for writers


def test_an_interrupted_watch_ends_quietly(busy: Shell) -> None:
    watching = busy.start("runs", "--watch", "--limit", "3")
    assert watching.stdout is not None
    first = watching.stdout.readline()
    assert "suspended" in first
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert said == ""


def test_a_watch_shows_a_run_that_changes(shell: Shell) -> None:
    shell.ok("start", "workflow//shop.py//checkout", "1", "--id", "w")
    watching = shell.start("runs", "--watch", "--json")
    assert watching.stdout is not None
    try:
        first = json.loads(watching.stdout.readline())
        assert (first["id"], first["status"]) == ("w", "pending")
        shell.ok("terminate", "w")
        second = json.loads(watching.stdout.readline())
        assert second["status"] == "terminated"
    finally:
        watching.kill()
        watching.communicate()
