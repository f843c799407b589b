"""The figures as ratios, as text and as JSON."""

from __future__ import annotations

from workloads.plan import WANTED, Wanted
from workloads.rounds import Figures

__all__ = ["figures_table", "ratios", "ratios_table"]

UNITS = {
    "raw": (1.0, "commits/s"),
    "W1": (1.0, "steps/s"),
    "W2": (1.0, "steps/s"),
    "W3": (1e3, "ms"),
    "W4": (1.0, "steps/s"),
    "W5": (1e6, "us per recorded step"),
    "W6": (1e3, "ms"),
    "W7": (1.0, "runs/s"),
    "W1 growth": (1.0, "times"),
    "W2 two": (1.0, "steps/s"),
    "W7 late": (1.0, "s"),
    "W7 memory": (1.0, "MB"),
}


def ratios(figures: Figures) -> list[tuple[Wanted, float, bool]]:
    """Each wanted ratio that could be measured, and whether it was reached."""
    found: list[tuple[Wanted, float, bool]] = []
    for wanted in WANTED:
        mine = figures[wanted.mine]
        theirs = 1.0 if wanted.theirs is None else figures[wanted.theirs]
        if mine is None or theirs is None:
            continue
        ratio = mine / theirs
        found.append((wanted, ratio, ratio >= wanted.bound if wanted.at_least else ratio <= wanted.bound))
    return found


def ratios_table(figures: Figures) -> str:
    lines = ["| | | wanted | measured | |", "| --- | --- | ---: | ---: | --- |"]
    for wanted, ratio, reached in ratios(figures):
        bound = f"{'at least' if wanted.at_least else 'at most'} {_number(wanted.bound)}"
        lines.append(
            f"| {wanted.workload} | {wanted.what} | {bound} | {_number(ratio)} | {'yes' if reached else 'no'} |"
        )
    return "\n".join(lines)


def figures_table(figures: Figures) -> str:
    lines = ["| figure | median | lowest | highest | samples |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, samples in figures.samples.items():
        kind = name.rpartition(" ")[0]
        scale, unit = UNITS[kind]
        middle = figures[name] or 0.0
        numbers = " | ".join(_number(value * scale) for value in (middle, min(samples), max(samples)))
        lines.append(f"| {name}, {unit} | {numbers} | {len(samples)} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
