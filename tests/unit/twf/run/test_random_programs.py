"""Random programs end the same way in one piece and rebuilt from their rows after every turn."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tenuto.errors import RunCancelledError, RunFailedError
from tenuto.testing import Engine
from tenuto.twf.run import Bindings, load_program

pytestmark = pytest.mark.fuzz
SEEDS = range(1_000 if os.environ.get("TENUTO_FUZZ") == "1" else 25)
HEAD = """workflow Random(n: int) -> (list):
    signal S(k: int):
        seen.append("S" + k)
        if (k % 2 == 0):
            activity Work(k) -> r
            seen.append("s" + r)
    update U(k: int) -> (int):
        seen.append("U" + k)
        if (k % 3 == 0):
            await timer(3s)
        if (k % 3 == 1):
            await one:
                signal S -> x:
                    seen.append("u" + x)
                timer(7s):
                    seen.append("ut")
        return k * 2
    query Seen() -> (int):
        return len(seen)
    seen = []
"""
TAIL = """
workflow Kid(k: int) -> (int):
    await timer(2s)
    if (k % 5 == 4):
        close failed "kid"
    close k * 10

activity Work(k: int) -> (int):
    # bound
"""


class Writer:
    """Writes statements that say what they did."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def next(self) -> int:
        self.number += 1
        return self.number

    def block(self, indent: int, depth: int, size: int, *, in_loop: bool = False, branches: bool = False) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, size)):
            lines += self.statement(indent, depth, in_loop=in_loop, branches=branches)
        return lines

    def statement(self, indent: int, depth: int, *, in_loop: bool, branches: bool) -> list[str]:
        pad = "    " * indent
        n = self.next()
        simple = ["activity", "timer", "child", "spawn", "note", "signal", "limited", "retried"]
        sorts = simple + (["all", "one", "for", "if", "fan", "while"] if depth > 0 else [])
        sorts += ["break"] if in_loop else []
        match self.random.choice(sorts):
            case "activity":
                return [f"{pad}activity Work({n}) -> v{n}", f'{pad}seen.append("a" + v{n})']
            case "limited":
                limit = self.random.choice([1, 30, 30, 30])
                lines = [f"{pad}activity Work({n}) -> v{n}", f"{pad}    options(scheduleToCloseTimeout: {limit}s)"]
                return [*lines, *lines, f'{pad}seen.append("l" + v{n})']
            case "retried":
                options = 'retryPolicy: {maxAttempts: 2, initialInterval: 1s}, timeout: 20s, workflowId: "kid-{n}-'
                lines = [f"{pad}workflow Kid({n * 5 + self.random.choice([0, 0, 4])}) -> v{n}"]
                return [*lines, f'{pad}    options({options}{n}")', f'{pad}seen.append("r" + v{n})']
            case "timer":
                return [f"{pad}await timer({self.random.randint(0, 9)}s)", f'{pad}seen.append("t{n}")']
            case "child":
                return [f"{pad}workflow Kid({n * 5}) -> v{n}", f'{pad}seen.append("k" + v{n})']
            case "spawn":
                wait = (
                    [f"{pad}await h{n} -> v{n}", f'{pad}seen.append("h" + v{n})'] if self.random.random() < 0.7 else []
                )
                return [f"{pad}spawn workflow Kid({n * 5}) -> h{n}", *wait]
            case "note":
                return [f'{pad}seen.append("n{n}")', f"{pad}x = len(seen)"]
            case "signal":
                return [
                    f"{pad}await one:",
                    f"{pad}    signal S -> k{n}:",
                    f'{pad}        seen.append("w" + k{n})',
                    f"{pad}    timer({self.random.randint(1, 20)}s):",
                    f'{pad}        seen.append("-{n}")',
                ]
            case "break":
                return [f"{pad}if (len(seen) % 3 == 0):", f"{pad}    {self.random.choice(['break', 'continue'])}"]
            case "all":
                return [f"{pad}await all:", *self.block(indent + 1, depth - 1, 3, branches=True)]
            case "one":
                lines = [f"{pad}await one:"]
                for _ in range(self.random.randint(1, 3)):
                    lines += self.case(indent + 1, depth - 1)
                return lines
            case "for":
                items = [self.random.randint(0, 9) for _ in range(self.random.randint(0, 3))]
                return [f"{pad}for (i{n} in {items}):", *self.block(indent + 1, depth - 1, 2, in_loop=not branches)]
            case "while":
                return [
                    f"{pad}c{n} = 0",
                    f"{pad}for (c{n} < 2):",
                    f"{pad}    c{n} += 1",
                    *self.block(indent + 1, depth - 1, 2, in_loop=True),
                ]
            case "fan":
                return [
                    f"{pad}await all:",
                    f"{pad}    for (i{n} in [1, 2, 3]):",
                    f"{pad}        activity Work(i{n}) -> v{n}",
                    *self.block(indent + 2, depth - 1, 2),
                    f"{pad}seen.append(str(v{n}))",
                ]
            case _:
                return [
                    f"{pad}if (len(seen) % 2 == 0):",
                    *self.block(indent + 1, depth - 1, 2),
                    f"{pad}else:",
                    *self.block(indent + 1, depth - 1, 2),
                ]

    def case(self, indent: int, depth: int) -> list[str]:
        pad = "    " * indent
        n = self.next()
        sort = self.random.choice(["activity", "timer", "signal", "update", "child", "all"])
        if sort == "all":
            return [f"{pad}await all:", *self.block(indent + 1, max(depth, 0), 2, branches=True)]
        head = {
            "activity": f"activity Work({n}) -> v{n}:",
            "timer": f"timer({self.random.randint(0, 9)}s):",
            "signal": f"signal S -> v{n}:",
            "update": f"update U -> v{n}:",
            "child": f"workflow Kid({n * 5}) -> v{n}:",
        }[sort]
        return [f"{pad}{head}", f'{pad}    seen.append("{sort}{n}")', *self.block(indent + 1, max(depth, 0), 1)]


def program(seed: int) -> str:
    writer = Writer(seed)
    body = writer.block(1, 3, 4)
    end = writer.random.choice(["    close seen", "    return seen", '    close failed "end"', "    close seen"])
    return HEAD + "\n".join([*body, end]) + "\n" + TAIL


async def outcome(seed: int, *, crashing: bool) -> Any:
    """How the program ends, when, and what its updates were told."""
    engine = Engine(crash_everywhere=crashing, patience=5)
    chance = random.Random(seed)
    b = Bindings()

    async def work(k: int) -> int:
        length = (k * 7919) % 6
        if length:
            await engine.takes(f"{length}s")
        return k

    b.activity("Work")(work)
    load_program(files={"random.twf": program(seed)}, bindings=b)
    try:
        started = engine.now_ms
        run = await engine.start("Random", 1, id="r")
        for n in range(chance.randint(0, 6)):
            await engine.advance(f"{chance.randint(0, 4)}s")
            if await run.status() not in ("pending", "running", "suspended"):
                break
            if chance.random() < 0.7:
                await run.signal("S", n)
            else:
                await _send_update(engine, run, n)
        if chance.random() < 0.15 and await run.status() in ("running", "suspended"):
            await run.cancel()
        try:
            ending: Any = await run.result()
        except RunFailedError as error:
            ending = ("failed", str(error.__cause__))
        except RunCancelledError:
            ending = "cancelled"
        except AssertionError as error:
            ending = "stuck" if "nothing will wake it" in str(error) else ("parked", str(error))
        rows = await engine.rows(run.id)
        answers = {key: (update.status, update.result) for key, update in rows.updates.items()}
        return ending, engine.now_ms - started, answers, await run.query()
    finally:
        engine.close()


async def _send_update(engine: Engine, run: Any, n: int) -> None:
    from tenuto.codec.values import dump
    from tenuto.kernel.records import Mail, MailKind

    await engine.store.send(run.id, Mail(MailKind.UPDATE, "U", f"u{n}", dump([n]), None, 0, engine.now_ms))
    engine.wake(run.id)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_random_program_ends_the_same_whatever_crashes(seed: int) -> None:
    plain = await outcome(seed, crashing=False)
    if "TN127" in str(plain[0]):
        return  # two branches wanted a child of one id, and who comes first is not promised between runs
    assert await outcome(seed, crashing=True) == plain, program(seed)
