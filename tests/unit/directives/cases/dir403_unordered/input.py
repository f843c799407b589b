import asyncio

async def w(names, tasks):
    "use workflow"
    for name in {"b", "a"}:
        print(name)
    for name in set(names) | {"x"}:
        print(name)
    [n for n in frozenset(names)]
    for name in sorted(set(names)):
        print(name)
    await asyncio.wait(tasks)
    for task in asyncio.as_completed(tasks):
        await task


SEEN = []
COUNTS = {}

def open(path):
    return path

def helper(x):
    SEEN.append(x)
    return x

async def more(names: set[str], maybe: "frozenset[int] | None", xs: list[str], ok: dict[str, int]):
    "use workflow"
    held = set(xs)
    both = held | names
    for name in held:
        print(name)
    for name in both.union(xs):
        print(name)
    for name in names:
        print(name)
    first, *rest = [*maybe]
    listed = list(held)
    joined = ",".join(names)
    one = held.pop()
    {name: 1 for name in held}
    COUNTS["x"] = 1
    helper(1)

async def fine(names: set[str], xs: list[str]):
    "use workflow"
    later = set(xs)
    later = sorted(later)
    for name in later:
        print(name)
    any(x for x in {1, 2})
    all(x in names for x in {1, 2})
    sum(n for n in names)
    {n + 1 for n in names}
    sorted(list(names))
    len(names)
    "a" in names
    for name in sorted(names):
        open(name)
    SEEN = [1]
    SEEN.append(2)
    ok = {}
    ok["a"] = 1
    for key in ok:
        print(key)

async def slow(names: set[str], f):
    "use workflow"
    return any([await f(n) for n in names])
