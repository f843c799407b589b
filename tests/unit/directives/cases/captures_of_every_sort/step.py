#__internal_workflows{"workflows":{"input.py":{"outer":{"workflowId":"workflow//input.py//outer"}}},"steps":{"input.py":{"outer/fee":{"stepId":"step//input.py//outer/fee"},"outer/helper/deep":{"stepId":"step//input.py//outer/helper/deep"},"outer/total":{"stepId":"step//input.py//outer/total"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.workflow_stub('workflow//input.py//outer')
async def outer(rows, note=None):
    ...

@__tenuto__.hoisted_step('step//input.py//outer/fee', 'outer.<locals>.fee')
async def _tenuto_outer__fee(x):
    base, = __tenuto__.closure('base')
    return x * base

@__tenuto__.hoisted_step('step//input.py//outer/total', 'outer.<locals>.total')
async def _tenuto_outer__total(n):
    """Adds it all up."""
    import json
    from os import path as p
    fee = _tenuto_outer__fee
    total = _tenuto_outer__total
    rows, = __tenuto__.closure('rows')
    if n == 0:
        return len(json.dumps(rows)) + len(p.sep)
    return await fee(n) + await total(n - 1)

@__tenuto__.hoisted_step('step//input.py//outer/helper/deep', 'outer.<locals>.helper.<locals>.deep')
async def _tenuto_outer__helper__deep(*args, flag, **more):
    base, depth = __tenuto__.closure('base', 'depth')
    return ([depth + base for _ in args], flag, more)
