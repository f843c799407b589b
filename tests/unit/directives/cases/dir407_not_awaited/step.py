#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"charge":{"stepId":"step//input.py//charge"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.step('step//input.py//charge')
async def charge(card):
    pass

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w(card):
    ...
