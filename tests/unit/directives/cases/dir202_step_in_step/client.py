#__internal_workflows{"steps":{"input.py":{"outer":{"stepId":"step//input.py//outer"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.local_step('step//input.py//outer')
async def outer():

    async def inner(x):
        """Plain."""
        return x
    return await inner(1)
