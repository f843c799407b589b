#__internal_workflows{"steps":{"input.py":{"render":{"stepId":"step//input.py//render"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//render', line=4)
async def render(doc):
    ...

@__tenuto__.remote_step('step//input.py//render', line=6)
async def render(doc):
    ...
