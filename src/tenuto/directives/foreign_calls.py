"""Tables of calls that a workflow must not make itself, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "CLOCK_FIXES",
    "CLOCK_MODULES",
    "ORDERED_FIXES",
    "UNORDERED",
    "clock_kind",
    "io_verdict",
    "is_blocking_method",
    "is_thread",
]

_STEP: Final = "put it in a step"
_SETTINGS: Final = "read it at module level or in a step, or pass it as input"
_IN_STEP: Final = "make it in a step: a secret that can be replayed is none"

# Exact dotted name -> (why, what to do).
_EXACT: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("opens a file", _STEP),
    "input": ("waits for a person", "use a signal"),
    "io.open": ("opens a file", _STEP),
    "time.sleep": ("blocks the worker", "write `await sleep(...)`"),
    "time.process_time": ("reads another clock on replay", "use tenuto.now()"),
    "time.thread_time": ("reads another clock on replay", "use tenuto.now()"),
    "os.environ": ("differs between machines", _SETTINGS),
    "os.getenv": ("differs between machines", _SETTINGS),
    "os.getcwd": ("differs between machines", _SETTINGS),
    "os.getpid": ("differs between machines", _SETTINGS),
    "os.cpu_count": ("differs between machines", _SETTINGS),
    "os.urandom": ("is different on replay", _IN_STEP),
    "random.SystemRandom": ("is different on replay", _IN_STEP),
    "random.seed": ("cannot change the run's own randomness", "use random.Random(seed)"),
    "uuid.uuid1": ("is different on replay", "use tenuto.uuid4()"),
    "uuid.getnode": ("differs between machines", _SETTINGS),
    "asyncio.open_connection": ("opens a connection", _STEP),
    "asyncio.start_server": ("opens a socket", _STEP),
    "asyncio.create_subprocess_exec": ("starts a process", _STEP),
    "asyncio.create_subprocess_shell": ("starts a process", _STEP),
    "asyncio.run": ("starts a second event loop", "await it"),
}

# First part of a dotted name -> (why, what to do).
_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("secrets",), ("is different on replay", _IN_STEP)),
    **dict.fromkeys(("platform",), ("differs between machines", _SETTINGS)),
    **dict.fromkeys(("subprocess", "pty"), ("starts a process", _STEP)),
    **dict.fromkeys(("shutil", "tempfile", "glob", "fileinput", "shelve", "dbm"), ("touches files", _STEP)),
    **dict.fromkeys(("sqlite3", "psycopg", "psycopg2", "asyncpg", "pymysql"), ("talks to a database", _STEP)),
    **dict.fromkeys(("redis", "pymongo", "boto3", "botocore", "aioboto3"), ("talks to a server", _STEP)),
    **dict.fromkeys(
        ("socket", "ssl", "requests", "httpx", "aiohttp", "urllib3", "smtplib", "ftplib", "imaplib", "poplib"),
        ("talks to the network", _STEP),
    ),
}

_PREFIXES: Final[Mapping[str, tuple[str, str]]] = {
    "urllib.request.": ("talks to the network", _STEP),
    "http.client.": ("talks to the network", _STEP),
    "os.spawn": ("starts a process", _STEP),
    "os.exec": ("starts a process", _STEP),
    "os.posix_spawn": ("starts a process", _STEP),
    "os.popen": ("starts a process", _STEP),
    "os.system": ("starts a process", _STEP),
    "os.fork": ("starts a process", _STEP),
    **dict.fromkeys(
        (
            *("os.listdir", "os.scandir", "os.walk", "os.mkdir", "os.makedirs", "os.remove", "os.unlink", "os.rename"),
            *("os.replace", "os.rmdir", "os.removedirs", "os.chmod", "os.chown", "os.symlink", "os.link", "os.stat"),
            *("os.path.exists", "os.path.isfile", "os.path.isdir", "os.path.getmtime", "os.path.getsize"),
        ),
        ("touches files", _STEP),
    ),
}

_THREADS: Final = (
    "threading.Thread",
    "threading.Timer",
    "_thread.start_new_thread",
    "concurrent.futures.",
    "multiprocessing.",
    "asyncio.to_thread",
)

_BLOCKING_METHODS: Final = frozenset({"read_text", "write_text", "read_bytes", "write_bytes", "iterdir", "rglob"})

UNORDERED: Final = frozenset({"asyncio.wait", "asyncio.as_completed"})
ORDERED_FIXES: Final[Mapping[str, str]] = {
    "asyncio.wait": "use race or join from tenuto",
    "asyncio.as_completed": "use race or parallel from tenuto",
}

CLOCK_MODULES: Final = frozenset({"time", "datetime", "random", "uuid", "os"})
CLOCK_FIXES: Final[Mapping[str, str]] = {
    "clock": "use tenuto.now()",
    "randomness": "use tenuto.random() or tenuto.uuid4()",
    "environment": _SETTINGS,
}

_CLOCKS: Final = frozenset(
    {f"time.{name}" for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")}
    | {"time.localtime", "time.gmtime", "time.ctime"}
    | {f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")}
    | {"datetime.date.today"}
)


def io_verdict(name: str) -> tuple[str, str] | None:
    """Why a dotted name must not be called in a workflow, and what to do instead; None if it may."""
    if name in _EXACT:
        return _EXACT[name]
    for prefix, verdict in _PREFIXES.items():
        if name.startswith(prefix):
            return verdict
    first, dot, _ = name.partition(".")
    return _PACKAGES.get(first) if dot else None


def is_thread(name: str | None) -> bool:
    """Does a call of this dotted name start a thread or a process pool?"""
    return name is not None and name.startswith(_THREADS)


def is_blocking_method(attribute: str) -> bool:
    """Is this a method that only paths and files have?"""
    return attribute in _BLOCKING_METHODS


def clock_kind(name: str | None, *, is_call: bool) -> str | None:
    """What a dotted name reads that is not the same on replay: clock, randomness, environment."""
    if name is None:
        return None
    if not is_call:
        return "environment" if name == "os.environ" else None
    if name in _CLOCKS:
        return "clock"
    if name in ("uuid.uuid1", "uuid.uuid4") or (name.startswith("random.") and name != "random.Random"):
        return "randomness"
    return "environment" if name == "os.getenv" else None
