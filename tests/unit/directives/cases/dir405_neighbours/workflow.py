#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//w')
async def w():
    return (Clock().read(), cached(), plain())
