#__internal_workflows{"steps":{"input.py":{"rounder/rounded":{"stepId":"step//input.py//rounder/rounded"}}}}
from tenuto.model import compiled as __tenuto__

def rounder(digits):

    @__tenuto__.local_step('step//input.py//rounder/rounded', lambda: {'digits': digits})
    async def rounded(x):
        return round(x, digits)
    return rounded

@__tenuto__.hoisted_step('step//input.py//rounder/rounded', 'rounder.<locals>.rounded')
async def _tenuto_rounder__rounded(x):
    digits, = __tenuto__.closure('digits')
    return round(x, digits)
