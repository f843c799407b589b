"""How fast the TWF language is: parse and check, against itself at a tenth of the size, and against CPython.

    python bench/twf.py

Prints two ratios. `1 MB to 100 KB` shows that time grows with the size and no faster (10 is ideal, 12 allowed);
`to ast.parse` compares with CPython's own parser on the same program translated line for line (below 10 wanted).
Times are processor time, the best of several rounds in which the sides take turns.
"""

from __future__ import annotations

import ast
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tenuto.twf.program import Program, load
from tenuto.twf.source import Source

ROUNDS = 7

# One unit of the program, in TWF and, line for line, in Python.
TWF = """\
# orders of one customer, number {n}
workflow Order{n}(order: Order, limit: int) -> (Receipt):
    signal Cancel{n}(reason: string):
        cancelled = true
    query Status{n}() -> (string):
        return status
    update Raise{n}(amount: int) -> (int):
        limit = limit + amount
        return limit
    status = "new"
    total = 0
    for (item in order.items):
        if (item.price * item.count > limit and not item.approved):
            close failed Rejected{{item: item.id, reason: "over limit"}}
        else:
            total = total + item.price * item.count
    activity Charge{n}(order.customer, total) -> receipt
    switch (receipt.state):
        case "declined":
            close failed receipt.message
        case "ok":
            status = "paid"
    await timer(5m)
    activity Ship{n}(order, receipt.id) -> parcel
    close Receipt{{id: receipt.id, parcel: parcel, total: max(total, 0) - len(order.items) % 7}}

activity Charge{n}(customer: string, cents: int) -> (Charge):
    retries = 0
    for (retries < 3):
        answer = bank.charge(customer, cents)
        retries = retries + 1
    return answer

activity Ship{n}(order: Order, receipt: string) -> (string):
    return carrier.book(order, receipt)

"""
PYTHON = """\
# orders of one customer, number {n}
def Order{n}(order: Order, limit: int) -> (Receipt):
    def Cancel{n}(reason: string):
        cancelled = true
    def Status{n}() -> (string):
        return status
    def Raise{n}(amount: int) -> (int):
        limit = limit + amount
        return limit
    status = "new"
    total = 0
    for item in (order.items):
        if (item.price * item.count > limit and not item.approved):
            return failed, Rejected(item=item.id, reason="over limit")
        else:
            total = total + item.price * item.count
    receipt = Charge{n}(order.customer, total)
    match (receipt.state):
        case "declined":
            return failed, receipt.message
        case "ok":
            status = "paid"
    timer(300)
    parcel = Ship{n}(order, receipt.id)
    return Receipt(id=receipt.id, parcel=parcel, total=max(total, 0) - len(order.items) % 7)

def Charge{n}(customer: string, cents: int) -> (Charge):
    retries = 0
    while (retries < 3):
        answer = bank.charge(customer, cents)
        retries = retries + 1
    return answer

def Ship{n}(order: Order, receipt: string) -> (string):
    return carrier.book(order, receipt)

"""


def program(template: str, units: int) -> str:
    return "".join(template.replace("{n}", str(n)).replace("{{", "{").replace("}}", "}") for n in range(units))


def units_for(size: int) -> int:
    return size // (len(program(TWF, 1000)) // 1000) + 1


def check(text: str) -> Program:
    return load([Source("bench.twf", text)])


def timed(action: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    small, large = units_for(100_000), units_for(1_000_000)
    small_text, large_text, python_text = program(TWF, small), program(TWF, large), program(PYTHON, large)
    found = check(small_text)
    assert not found.diagnostics, found.diagnostics[:3]
    assert small_text.count("\n") == program(PYTHON, small).count("\n")

    ours_small = ours_large = python = float("inf")
    for _ in range(ROUNDS):
        ours_small = min(ours_small, timed(lambda: check(small_text)))
        ours_large = min(ours_large, timed(lambda: check(large_text)))
        python = min(python, timed(lambda: ast.parse(python_text)))
    lines = large_text.count("\n")
    print(
        f"program        {len(large_text) / 1e6:.2f} MB, {lines} lines, also as Python {len(python_text) / 1e6:.2f} MB"
    )
    print(f"parse+check    {ours_large:.2f} s; {ours_small:.3f} s for {len(small_text) / 1e3:.0f} KB")
    print(f"ast.parse      {python:.2f} s")
    print(f"ratio 1 MB to 100 KB   {ours_large / ours_small:.1f}  (at most 12)")
    print(f"ratio to ast.parse     {ours_large / python:.1f}  (below 10)")


if __name__ == "__main__":
    main()
