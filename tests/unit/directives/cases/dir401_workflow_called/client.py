#__internal_workflows{"workflows":{"input.py":{"a":{"workflowId":"workflow//input.py//a"},"b":{"workflowId":"workflow//input.py//b"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.workflow_stub('workflow//input.py//a')
async def a():
    ...

@__tenuto__.workflow_stub('workflow//input.py//b')
async def b():
    ...
