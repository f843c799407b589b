#__internal_workflows{"steps":{"input.py":{"f":{"stepId":"step//input.py//f"}}}}
from tenuto.model import compiled as __tenuto__
N = 0

@__tenuto__.step('step//input.py//f')
async def f():
    global N
    N += 1
