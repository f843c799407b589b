#__internal_workflows{"steps":{"input.py":{"export":{"stepId":"step//input.py//export"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.local_step('step//input.py//export')
async def export(rows):
    async with sink('s3') as out:
        await out.write(rows)

def sink(name):
    ...
