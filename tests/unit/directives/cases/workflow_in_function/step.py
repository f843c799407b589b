#__internal_workflows{"steps":{"input.py":{"make/inner/part":{"stepId":"step//input.py//make/inner/part"}}}}
from tenuto.model import compiled as __tenuto__

def make(n):

    @__tenuto__.local_workflow('workflow//input.py//make/inner')
    async def inner(x):

        @__tenuto__.local_step('step//input.py//make/inner/part', lambda: {'n': n})
        async def part(y):
            return y + n
        return await part(x)
    return inner

@__tenuto__.hoisted_step('step//input.py//make/inner/part', 'make.<locals>.inner.<locals>.part')
async def _tenuto_make__inner__part(y):
    n, = __tenuto__.closure('n')
    return y + n
