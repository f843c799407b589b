#__internal_workflows{"workflows":{"input.py":{"deploy":{"workflowId":"workflow//input.py//deploy"}}}}
from tenuto.model import compiled as __tenuto__
import sys
if sys.platform == 'win32':

    @__tenuto__.workflow_stub('workflow//input.py//deploy', line=4)
    async def deploy(target):
        ...
else:

    @__tenuto__.workflow_stub('workflow//input.py//deploy', line=8)
    async def deploy(target):
        ...
