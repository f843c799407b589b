"""Whether a process of this machine is gone: known for sure, or not said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenuto.store.machine import UNKNOWN, Process, is_gone, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="only Linux tells")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def began(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])


def of(child: subprocess.Popen[bytes]) -> Process:
    return Process(this_process().machine, child.pid, began(child.pid))


def test_this_process_is_there() -> None:
    here = this_process()
    assert here.machine
    assert here.pid == os.getpid()
    assert not is_gone(here, here)


def test_a_process_that_was_killed_is_gone_also_before_anybody_has_waited_for_it(
    child: subprocess.Popen[bytes],
) -> None:
    here, other = this_process(), of(child)
    assert not is_gone(other, here)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert is_gone(other, here)
    child.wait()
    assert is_gone(other, here)


def test_a_pid_that_another_process_has_by_now_does_not_keep_the_first_alive(child: subprocess.Popen[bytes]) -> None:
    """R078: the pid was used again."""
    other = of(child)
    assert is_gone(other._replace(began=other.began - 1), this_process())


def test_an_equal_pid_in_another_container_or_on_another_machine_says_nothing(child: subprocess.Popen[bytes]) -> None:
    """R078: there only the lease decides, whatever the hosts are called."""
    here, other = this_process(), of(child)
    boot, namespace = here.machine.split()
    for machine in (f"{boot} pid:[1]", f"another {namespace}", ""):
        assert not is_gone(Process(machine, 2**22 - 1, 5), here)
        assert not is_gone(other._replace(machine=machine, began=1), here)
    assert not is_gone(Process("", 2**22 - 1, 5), UNKNOWN)


def fake(proc: Path, *, boot: str = "boot", own: int | None = None, stat: str | None = None) -> Path:
    """A /proc that tells what the test says."""
    (proc / "sys/kernel/random").mkdir(parents=True)
    (proc / "sys/kernel/random/boot_id").write_text(boot, encoding="utf-8")
    pid = os.getpid() if own is None else own
    (proc / str(pid) / "ns").mkdir(parents=True)
    (proc / str(pid) / "ns/pid").symlink_to("pid:[7]")
    (proc / "self").symlink_to(str(pid))
    (proc / str(os.getpid())).mkdir(exist_ok=True)
    fields = " ".join(str(n) for n in range(4, 53))
    text = stat if stat is not None else f"{pid} (a) b) S 1 {fields}"
    (proc / str(os.getpid()) / "stat").write_text(text, encoding="utf-8")
    return proc


def test_a_name_with_parentheses_does_not_hide_when_a_process_began(tmp_path: Path) -> None:
    assert this_process(fake(tmp_path)) == Process("boot pid:[7]", os.getpid(), 21)


@pytest.mark.parametrize("told", [{"boot": ""}, {"own": 1}, {"stat": "12 (cut"}, {"stat": ""}])
def test_a_machine_that_does_not_tell_all_of_it_is_not_known(tmp_path: Path, told: dict[str, str | int]) -> None:
    """Where /proc is another namespace's, or hides something, the lease decides."""
    assert this_process(fake(tmp_path, **told)) == UNKNOWN  # type: ignore[arg-type]


def test_a_system_without_proc_is_not_known(tmp_path: Path) -> None:
    assert this_process(tmp_path) == UNKNOWN


def test_a_living_process_whose_start_is_hidden_is_not_gone(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    other = of(child)
    assert not is_gone(other, this_process(), tmp_path)
    (tmp_path / str(child.pid)).mkdir()
    (tmp_path / str(child.pid) / "stat").write_text("7 (cut", encoding="utf-8")
    assert not is_gone(other, this_process(), tmp_path)
