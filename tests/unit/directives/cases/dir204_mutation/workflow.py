#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"w/s":{"stepId":"step//input.py//w/s"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//w')
async def w(rows):
    seen = []
    found = {}

    @__tenuto__.remote_step('step//input.py//w/s', lambda: {'found': found, 'seen': seen})
    async def s(x):
        ...
    await s(1)
