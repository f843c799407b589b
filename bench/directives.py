"""What the import hook costs: a package of 200 modules, imported plainly and through the hook, warm and cold.

Run it by hand: `python bench/directives.py [--marked PERCENT]... [--rounds N]`. Only the ratios mean anything; the
limits are 1.15 warm and 2.5 cold. Measured with a quarter of the modules marked and with all of them. Each import
happens in a process of its own, the two kinds by turns, and the fastest of the rounds counts. Both processes have the
runtime loaded and the collector at rest before the clock starts: a full collection that falls due a little earlier in
one of them would count for more than the hook.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = 200
WARM_LIMIT = 1.15
COLD_LIMIT = 2.5

CHILD = """
import gc, json, sys, time
import tenuto, tenuto.model.compiled, tenuto.directives
if sys.argv[1] == "hook":
    tenuto.directives.install()
sys.path.insert(0, sys.argv[2])
gc.collect()
start = time.process_time()
import package.everything
print(json.dumps(time.process_time() - start))
"""

ORDINARY = '''
class Record{n}:
    """A record with some behaviour."""

    limit = 3

    def __init__(self, name, price, tags=()):
        self.name = name
        self.price = price
        self.tags = list(tags)

    def total(self, count):
        """What that many cost."""
        if count > self.limit:
            return sum(self.price for _ in range(count)) * 0.9
        return self.price * count

    def describe(self):
        parts = [f"{{self.name}}: {{self.price:.2f}}"]
        for tag in self.tags:
            parts.append(tag.upper())
        return ", ".join(parts)


def parse{n}(text, separator=","):
    """Read records from text, one per line."""
    found = []
    for line in text.splitlines():
        name, _, price = line.partition(separator)
        try:
            found.append(Record{n}(name.strip(), float(price)))
        except ValueError as error:
            raise ValueError(f"line {{line!r}}") from error
    return found
'''

MARKED = '''
async def fetch{n}(url: str, depth: int = 1) -> str:
    """Reads something."""
    "use step"
    return f"{{url}} {{depth}}"


async def sync{n}(urls: list[str]) -> list[str]:
    """Reads everything."""
    "use workflow"
    found = []
    for url in urls:
        found.append(await fetch{n}(url))
    return found
'''


def write_package(folder: Path, marked_percent: int) -> None:
    package = folder / "package"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.tenuto]\n")
    (package / "__init__.py").touch()
    marked = round(MODULES * marked_percent / 100)
    for number in range(MODULES):
        text = "".join(ORDINARY.format(n=f"{number}_{part}") for part in range(8))
        if number < marked:
            text += MARKED.format(n=number)
        (package / f"module{number}.py").write_text("import json\nimport re\n" + text)
    names = "".join(f"from package import module{number}\n" for number in range(MODULES))
    (package / "everything.py").write_text(names)


def measure(kind: str, folder: Path) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=folder,  # where a program of this project would run
    )
    return float(json.loads(done.stdout))


def best(folder: Path, rounds: int, *, is_cold: bool) -> tuple[float, float]:
    seconds: dict[str, list[float]] = {"plain": [], "hook": []}
    for _ in range(rounds):
        for kind, times in seconds.items():
            if is_cold:
                shutil.rmtree(folder / "package" / "__pycache__", ignore_errors=True)
            times.append(measure(kind, folder))
    return min(seconds["plain"]), min(seconds["hook"])


def compare(marked_percent: int, rounds: int) -> bool:
    """Print the ratios for one share of marked modules; were they within the limits?"""
    print(f"{MODULES} modules, {marked_percent}% with directives, best of {rounds}")
    is_fine = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_package(folder, marked_percent)
        # Cold first: what was written less than two seconds ago is not yet trusted to be the same by its times.
        for label, is_cold, limit in (("cold", True, COLD_LIMIT), ("warm", False, WARM_LIMIT)):
            if not is_cold:
                measure("plain", folder)
                measure("hook", folder)
            plain, hook = best(folder, rounds, is_cold=is_cold)
            ratio = hook / plain
            is_fine = is_fine and ratio <= limit
            print(f"{label}: plain {plain * 1000:.1f} ms, hook {hook * 1000:.1f} ms, ratio {ratio:.2f} (limit {limit})")
    return is_fine


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--marked", type=int, action="append", help="percentage of modules with directives")
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    shares: list[int] = chosen.marked or [25, 100]
    return 0 if all([compare(share, chosen.rounds) for share in shares]) else 1


if __name__ == "__main__":
    sys.exit(main())
