#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}}}
from tenuto.model import compiled as __tenuto__
import asyncio

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w(names, tasks):
    ...
