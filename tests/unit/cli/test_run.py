"""`tenuto run`, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

APP = """\
import os
import sys

async def f():
    "use step"
    return 1

async def w(x):
    "use workflow"
    return x + len(os.sep)

try:
    w.fn(1).send(None)
except StopIteration as stop:
    value = stop.value

if __name__ == "__main__":
    print(f.id, w.id, value, sys.argv, os.path.basename(sys.path[0]), sys.modules["__main__"].f is f)
    sys.exit(3)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "app.py").write_text(APP)
    return tmp_path


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    start = "import sys; from tenuto.cli import main; sys.argv[0] = 'tenuto'; main()"
    return subprocess.run([sys.executable, "-c", start, "run", *arguments], cwd=folder, capture_output=True, text=True)


def test_d098_a_script_runs_as_python_runs_it_with_directives(project: Path) -> None:
    done = run("app.py", "a", "--flag", folder=project / "pkg")
    assert done.returncode == 3, done.stderr
    assert done.stdout == "step//pkg/app.py//f workflow//pkg/app.py//w 2 ['app.py', 'a', '--flag'] pkg True\n"


def test_d018_the_same_file_has_the_same_ids_as_a_module_and_as_a_script(project: Path) -> None:
    done = run("-m", "pkg.app", "a", folder=project)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("step//pkg/app.py//f workflow//pkg/app.py//w 2 [")
    assert done.stdout.endswith("True\n")
    check = "from tenuto.directives import install; install(); import pkg.app; print(pkg.app.f.id)"
    imported = subprocess.run([sys.executable, "-c", check], cwd=project, capture_output=True, text=True, check=True)
    assert imported.stdout == "step//pkg/app.py//f\n"


def test_an_error_shows_the_users_own_lines(project: Path) -> None:
    (project / "broken.py").write_text('async def f():\n    "use step"\n\nraise ValueError("here")\n')
    done = run("broken.py", folder=project)
    assert done.returncode == 1
    assert 'broken.py", line 4, in <module>\n    raise ValueError("here")' in done.stderr


def test_a_file_that_is_not_there_is_said_to_be_so(project: Path) -> None:
    done = run("nowhere.py", folder=project)
    assert done.returncode == 2
    assert done.stderr == "tenuto run: there is no file nowhere.py\n"


SPAWNING = """\
import asyncio, multiprocessing
from concurrent.futures import ProcessPoolExecutor
from other import triple
from tenuto import Tenuto

async def double(x):
    "use step"
    return 2 * x

async def w(x):
    "use workflow"
    return await triple(await double(x))

async def run(x):
    async with Tenuto("memory://") as app:
        return await (await app.start(w, x)).result(timeout=20)

def child(x):
    return asyncio.run(run(x)), w.id, __name__

if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(child, 1).result())
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("target", [("script.py",), ("-m", "script")])
def test_processes_that_a_script_spawns_compile_it_too(tmp_path: Path, method: str, target: tuple[str, ...]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "script.py").write_text(SPAWNING.replace("METHOD", repr(method)))
    (tmp_path / "other.py").write_text("async def triple(x):\n    'use step'\n    return 3 * x\n")
    done = subprocess.run(
        [sys.executable, "-m", "tenuto.cli", "run", *target], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["(6, 'workflow//script.py//w', '__mp_main__')"], done.stderr
