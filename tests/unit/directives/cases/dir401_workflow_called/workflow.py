#__internal_workflows{"workflows":{"input.py":{"a":{"workflowId":"workflow//input.py//a"},"b":{"workflowId":"workflow//input.py//b"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//a')
async def a():
    pass

@__tenuto__.workflow('workflow//input.py//b')
async def b():
    await a()
