#__internal_workflows{"workflows":{"input.py":{"deploy":{"workflowId":"workflow//input.py//deploy"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//deploy', line=4)
async def deploy(target):
    return ('windows', target)

@__tenuto__.workflow('workflow//input.py//deploy', line=8)
async def deploy(target):
    return ('other', target)
