#__internal_workflows{"workflows":{"input.py":{"order":{"workflowId":"workflow//input.py//order"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//order')
@app.post('/orders')
async def order(item):
    return item
