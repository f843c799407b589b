#__internal_workflows{"steps":{"input.py":{"f":{"stepId":"step//input.py//f"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.local_step('step//input.py//f')
async def f():
    return 1
