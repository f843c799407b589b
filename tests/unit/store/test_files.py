"""The file of a store and its folder: who may read them, and what is only looked at."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenuto.errors import StoreRefusedError, StoreUnavailableError
from tenuto.store.port import NewRun
from tenuto.store.sqlite import SqliteStore

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
NOBODY = 65_534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("folder", [".tenuto", "named"])
async def test_what_a_store_makes_is_for_its_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Whatever the umask: the file, its log, its index, and the folder if it is ours to make."""
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path(folder) / "tenuto.db")
    await store.open()
    assert await store.create(NewRun("r", "wf", ()))
    assert mode(tmp_path / folder) == 0o700
    made = sorted(path.name for path in (tmp_path / folder).iterdir())
    assert made == ["tenuto.db", "tenuto.db-shm", "tenuto.db-wal"]
    assert {mode(tmp_path / folder / name) for name in made} == {0o600}
    await store.close()


async def test_a_file_that_is_there_keeps_the_permissions_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch(mode=0o660)
    path.chmod(0o660)
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert mode(path) == 0o660


@pytest.mark.parametrize("danger", ["a link", "others may write", "the group may write"])
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_default_folder_that_others_may_have_put_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, danger: str, read_only: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path(".tenuto/tenuto.db"))
    await store.open()
    await store.close()
    if danger == "a link":
        Path(".tenuto").rename("elsewhere")
        Path(".tenuto").symlink_to("elsewhere")
    else:
        Path(".tenuto").chmod(0o777 if danger == "others may write" else 0o770)
    with pytest.raises(StoreRefusedError, match="is a link" if danger == "a link" else "can be written by others"):
        await SqliteStore(Path(".tenuto/tenuto.db"), read_only=read_only).open()


async def test_a_folder_that_was_named_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    for permissions, warned in ((0o755, 0), (0o775, 0), (0o1777, 0), (0o777, 1)):
        folder.chmod(permissions)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tenuto.store"):
            store = SqliteStore(folder / "app.db")
            await store.open()
            await store.close()
        assert len(caplog.records) == warned, oct(permissions)
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o755)
    caplog.clear()
    store = SqliteStore(tmp_path / "link" / "app.db")
    await store.open()
    await store.close()
    assert "is a link to" in caplog.text


# --- read-only


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user can reach; that of the test is for its own user only."""
    with tempfile.TemporaryDirectory(prefix="tenuto-files-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions concern: root reads and writes everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def prepared(folder: Path, *, with_log: bool = False) -> Path:
    """A store with one run, that nobody may write."""
    path, copy = folder / "made.db", folder / "medium" / "backup ?#%.db"
    store = SqliteStore(path)
    await store.open()
    await store.create(NewRun("r", "wf", ((b"\x15\x01", b"first"),)))
    copy.parent.mkdir()
    if not with_log:
        await store.close()
    for suffix in ("", "-wal") if with_log else ("",):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        Path(f"{copy}{suffix}").chmod(0o444)
    if with_log:
        await store.close()
    copy.parent.chmod(0o555)
    return copy


async def test_a_store_on_a_read_only_medium_can_be_looked_at(folder: Path) -> None:
    path = await prepared(folder)
    with unprivileged():
        store = SqliteStore(path, read_only=True)
        await store.open()
        record = await store.get("r")
        assert record is not None
        assert await store.rows("r") == [(b"\x15\x01", b"first")]
        assert (await store.schema())[0] >= 1
        await store.close()
    assert [item.name for item in path.parent.iterdir()] == [path.name]


async def test_a_log_beside_a_file_that_nobody_may_write_is_said_to_be_in_the_way(folder: Path) -> None:
    """What is in it would be missing: no answer is better than an old one."""
    path = await prepared(folder, with_log=True)
    with unprivileged(), pytest.raises(StoreUnavailableError, match="make its folder writable, or copy"):
        await SqliteStore(path, read_only=True).open()


async def test_who_would_write_a_read_only_file_is_told_what_it_is(folder: Path) -> None:
    path = await prepared(folder)
    with unprivileged(), pytest.raises(StoreUnavailableError, match="the file is read-only") as refused:
        await SqliteStore(path).open()
    assert "goes on by itself" not in str(refused.value)


async def test_who_would_make_a_file_where_nothing_may_be_written_is_told_so(folder: Path) -> None:
    path = await prepared(folder)
    with unprivileged(), pytest.raises(StoreUnavailableError, match="the file is read-only, or its folder is"):
        await SqliteStore(path.with_name("new.db")).open()


async def test_how_much_of_a_file_is_unused_can_be_asked_for(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "app.db", sync="normal")
    await store.open()
    assert await store.unused_bytes() == 0
    await store.create(NewRun("r", "wf", tuple((b"\x15" + bytes([n]), b"x" * 4_000) for n in range(100))))
    await store.delete(["r"])
    assert await store.unused_bytes() > 300_000
    await store.close()
