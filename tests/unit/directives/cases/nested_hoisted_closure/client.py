#__internal_workflows{"workflows":{"input.py":{"pack":{"workflowId":"workflow//input.py//pack"}}},"steps":{"input.py":{"pack/label":{"stepId":"step//input.py//pack/label"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.workflow_stub('workflow//input.py//pack')
async def pack(items, box='M'):
    ...
