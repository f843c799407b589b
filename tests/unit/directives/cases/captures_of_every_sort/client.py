#__internal_workflows{"workflows":{"input.py":{"outer":{"workflowId":"workflow//input.py//outer"}}},"steps":{"input.py":{"outer/fee":{"stepId":"step//input.py//outer/fee"},"outer/helper/deep":{"stepId":"step//input.py//outer/helper/deep"},"outer/total":{"stepId":"step//input.py//outer/total"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.workflow_stub('workflow//input.py//outer')
async def outer(rows, note=None):
    ...
