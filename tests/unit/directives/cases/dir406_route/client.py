#__internal_workflows{"workflows":{"input.py":{"order":{"workflowId":"workflow//input.py//order"}}}}
from tenuto.model import compiled as __tenuto__

class app:

    @staticmethod
    def post(path):
        return lambda fn: fn

@__tenuto__.workflow_stub('workflow//input.py//order')
async def order(item):
    ...
