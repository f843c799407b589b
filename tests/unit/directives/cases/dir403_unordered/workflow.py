#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}}}
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
