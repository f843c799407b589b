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
