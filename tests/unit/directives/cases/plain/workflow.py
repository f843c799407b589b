#__internal_workflows{"workflows":{"input.py":{"ride":{"workflowId":"workflow//input.py//ride"}}},"steps":{"input.py":{"quote":{"stepId":"step//input.py//quote"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//quote')
async def quote(km, rate=__tenuto__.UNSET):
    """Price of a ride."""

@__tenuto__.workflow('workflow//input.py//ride')
async def ride(km):
    return await quote(km)
