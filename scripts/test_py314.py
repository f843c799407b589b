"""Runs the tests that need no thread, socket or binary wheel on CPython 3.14, compiled to WebAssembly.

python scripts/test_py314.py [pytest arguments]

Installs what it needs below .cache/py314: Pyodide and a Node that can load it by npm, wheels in pure Python by pip.
Without npm or a network it says so and does nothing; with TENUTO_REQUIRE=all that is a failure.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "py314"
PACKAGES = ["pyodide@314.0.7", "node@25.9.0"]
WHEELS = [
    *("pytest==9.2.0", "pluggy==1.7.0", "iniconfig==2.3.1", "packaging==26.3", "pygments==2.21.0"),
    *("pytest-asyncio==1.5.0", "anyio==4.16.0", "idna==3.20", "typing-extensions==4.16.0", "tzdata==2026.6"),
    *("hypothesis==6.155.7", "sortedcontainers==2.4.0", "attrs==26.1.0", "pybare==1.3.0", "cbor2==5.9.0"),
    *("click==8.5.1", "cronsim==2.8"),
]
PURE = ["--only-binary=:all:", "--platform=any", "--python-version=314", "--implementation=py", "--abi=none"]
AT_LEAST = 3500  # tests that have passed: fewer means that most were left out
STACK_KB = 60_000  # a thousand levels of Python are many more of WebAssembly


class Missing(Exception):
    """Something that cannot be installed here."""


def install() -> None:
    """Node, Pyodide and the wheels, unless they are there already."""
    stamp = CACHE / "installed"
    wanted = "\n".join(PACKAGES + WHEELS)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if shutil.which("npm") is None:
        raise Missing("there is no npm here")
    shutil.rmtree(CACHE, ignore_errors=True)
    wheels, packages = CACHE / "wheels", CACHE / "site-packages"
    for folder in (wheels, packages):
        folder.mkdir(parents=True)
    (CACHE / "package.json").write_text('{"private": true}')
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES], CACHE)
    _run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *PURE, "-d", str(wheels), *WHEELS], CACHE)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    stamp.write_text(wanted)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{command[0]} could not install: {done.stderr.strip()[-2000:]}")


def test(arguments: list[str]) -> int:
    """Runs them; 0 if enough have passed and none has failed."""
    node = [str(CACHE / "node_modules" / ".bin" / "node"), f"--stack-size={STACK_KB}"]
    modules = CACHE / "node_modules" / "pyodide"
    command = [*node, str(ROOT / "tests" / "py314" / "run.mjs"), *map(str, (modules, ROOT, CACHE / "site-packages"))]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True, preexec_fn=_large_stack)
    last = ""
    for line in process.stdout or ():
        print(line, end="", flush=True)
        last = line.strip() or last
    code = process.wait()
    counted = re.fullmatch(r"on 3\.14\S* \w+: (\d+) passed, (\d+) failed", last)
    if code or counted is None or int(counted[2]):
        print(f"the tests on Python 3.14 failed (exit code {code})", file=sys.stderr)
        return 1
    if not arguments and int(counted[1]) < AT_LEAST:
        print(f"only {counted[1]} tests ran on Python 3.14; there are at least {AT_LEAST}", file=sys.stderr)
        return 1
    return 0


def _large_stack() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = 16 * STACK_KB * 1024
    resource.setrlimit(resource.RLIMIT_STACK, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def main() -> int:
    """Installs, then tests."""
    try:
        install()
    except Missing as missing:
        required = os.environ.get("TENUTO_REQUIRE") == "all"
        print(f"Python 3.14 is {'missing' if required else 'left out'}: {missing}", file=sys.stderr)
        return 1 if required else 0
    return test(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
