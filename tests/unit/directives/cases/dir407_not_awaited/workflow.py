#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"charge":{"stepId":"step//input.py//charge"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//charge')
async def charge(card):
    ...

@__tenuto__.workflow('workflow//input.py//w')
async def w(card):
    charge(card)
    kept = charge(card)
    await kept
