#__internal_workflows{"workflows":{"input.py":{"checkout":{"workflowId":"workflow//input.py//checkout"}}},"steps":{"input.py":{"charge":{"stepId":"step//input.py//charge"},"cut":{"stepId":"step//input.py//cut"}}}}
from tenuto.model import compiled as __tenuto__
from tenuto import workflow

@__tenuto__.step('step//input.py//charge')
async def charge(card):
    return card

@__tenuto__.workflow_stub('workflow//input.py//checkout')
async def checkout(card):
    ...

@__tenuto__.step('step//input.py//cut')
def cut(text):
    return text[:1]
