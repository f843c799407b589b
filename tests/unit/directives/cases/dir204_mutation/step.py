#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"w/s":{"stepId":"step//input.py//w/s"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w(rows):
    ...

@__tenuto__.hoisted_step('step//input.py//w/s', 'w.<locals>.s')
async def _tenuto_w__s(x):
    found, seen = __tenuto__.closure('found', 'seen')
    seen.append(x)
    found['x'] = x
    local = []
    local.append(x)
    return x
