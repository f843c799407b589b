#__internal_workflows{"workflows":{"input.py":{"ride":{"workflowId":"workflow//input.py//ride"}}},"steps":{"input.py":{"quote":{"stepId":"step//input.py//quote"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.local_step('step//input.py//quote')
async def quote(km, rate=0.5):
    """Price of a ride."""
    return km * rate

@__tenuto__.workflow_stub('workflow//input.py//ride')
async def ride(km):
    ...
