"""Tenuto and its peers side by side, as ratios within one run: the machines are shared and noisy.

    python bench/peers.py [--quick] [--json]

W1 sequential steps, W2 many short runs, W3 idle latency, W4 fan-out, W5 replay after a kill, W6 signal round trip,
W7 parked timers; for Tenuto and DBOS, each on SQLite and on Postgres, each in a process of its own. Every figure is the
median of interleaved rounds. Method and results: docs/explanation/performance.md. Needs `pip install 'tenuto[bench]'`;
who cannot be imported is left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from workloads.databases import postgres
from workloads.plan import FULL, QUICK
from workloads.report import figures_table, ratios, ratios_table
from workloads.rounds import Field, Figures


def main() -> None:
    began = time.monotonic()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="tenuto-bench-") as name, postgres(Path(name)) as server:
        field = Field(Path(name), server, QUICK if "--quick" in sys.argv else FULL, figures)
        with field.opened():
            field.play()
        field.replay()
    if "--json" in sys.argv:
        table = [
            {"workload": w.workload, "what": w.what, "ratio": ratio, "reached": ok} for w, ratio, ok in ratios(figures)
        ]
        print(json.dumps({"ratios": table, "samples": figures.samples, "left_out": field.left_out}, indent=1))
        return
    print(ratios_table(figures), figures_table(figures), sep="\n\n")
    for line in field.left_out:
        print(f"left out: {line}")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
