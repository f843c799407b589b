#__internal_workflows{"workflows":{"input.py":{"checkout":{"workflowId":"workflow//input.py//checkout"}}},"steps":{"input.py":{"charge":{"stepId":"step//input.py//charge"},"cut":{"stepId":"step//input.py//cut"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//charge')
async def charge(card):
    ...

@__tenuto__.workflow('workflow//input.py//checkout')
async def checkout(card):
    return await charge(card)

@__tenuto__.remote_step('step//input.py//cut')
def cut(text):
    ...
