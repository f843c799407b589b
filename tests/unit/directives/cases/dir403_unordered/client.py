#__internal_workflows{"workflows":{"input.py":{"fine":{"workflowId":"workflow//input.py//fine"},"more":{"workflowId":"workflow//input.py//more"},"slow":{"workflowId":"workflow//input.py//slow"},"w":{"workflowId":"workflow//input.py//w"}}}}
from tenuto.model import compiled as __tenuto__
import asyncio

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w(names, tasks):
    ...
SEEN = []
COUNTS = {}

def open(path):
    return path

def helper(x):
    SEEN.append(x)
    return x

@__tenuto__.workflow_stub('workflow//input.py//more')
async def more(names: set[str], maybe: 'frozenset[int] | None', xs: list[str], ok: dict[str, int]):
    ...

@__tenuto__.workflow_stub('workflow//input.py//fine')
async def fine(names: set[str], xs: list[str]):
    ...

@__tenuto__.workflow_stub('workflow//input.py//slow')
async def slow(names: set[str], f):
    ...
