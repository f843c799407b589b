#__internal_workflows{"steps":{"input.py":{"export":{"stepId":"step//input.py//export"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//export')
async def export(rows):
    ...
