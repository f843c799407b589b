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
