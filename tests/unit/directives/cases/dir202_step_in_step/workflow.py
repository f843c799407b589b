#__internal_workflows{"steps":{"input.py":{"outer":{"stepId":"step//input.py//outer"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//outer')
async def outer():
    ...
