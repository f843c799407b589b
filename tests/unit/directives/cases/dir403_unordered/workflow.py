#__internal_workflows{"workflows":{"input.py":{"fine":{"workflowId":"workflow//input.py//fine"},"more":{"workflowId":"workflow//input.py//more"},"slow":{"workflowId":"workflow//input.py//slow"},"w":{"workflowId":"workflow//input.py//w"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//w')
async def w(names, tasks):
    for name in {'b', 'a'}:
        print(name)
    for name in set(names) | {'x'}:
        print(name)
    [n for n in frozenset(names)]
    for name in sorted(set(names)):
        print(name)
    await asyncio.wait(tasks)
    for task in asyncio.as_completed(tasks):
        await task

@__tenuto__.workflow('workflow//input.py//more')
async def more(names, maybe, xs, ok):
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
    joined = ','.join(names)
    one = held.pop()
    {name: 1 for name in held}
    COUNTS['x'] = 1
    helper(1)

@__tenuto__.workflow('workflow//input.py//fine')
async def fine(names, xs):
    later = set(xs)
    later = sorted(later)
    for name in later:
        print(name)
    any((x for x in {1, 2}))
    all((x in names for x in {1, 2}))
    sum((n for n in names))
    {n + 1 for n in names}
    sorted(list(names))
    len(names)
    'a' in names
    for name in sorted(names):
        open(name)
    SEEN = [1]
    SEEN.append(2)
    ok = {}
    ok['a'] = 1
    for key in ok:
        print(key)

@__tenuto__.workflow('workflow//input.py//slow')
async def slow(names, f):
    return any([await f(n) for n in names])
