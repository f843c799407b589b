#__internal_workflows{"workflows":{"input.py":{"process":{"workflowId":"workflow//input.py//process"}}},"steps":{"input.py":{"load":{"stepId":"step//input.py//load"}}}}
from __future__ import annotations
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//load')
async def load(order, depth=__tenuto__.UNSET):
    ...

@__tenuto__.workflow('workflow//input.py//process')
async def process(order):
    found: Order = await load(order)
    return found
