#__internal_workflows{"workflows":{"input.py":{"outer":{"workflowId":"workflow//input.py//outer"}}},"steps":{"input.py":{"outer/fee":{"stepId":"step//input.py//outer/fee"},"outer/helper/deep":{"stepId":"step//input.py//outer/helper/deep"},"outer/total":{"stepId":"step//input.py//outer/total"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//outer')
async def outer(rows, note=None):
    import json
    from os import path as p
    base = 2

    @__tenuto__.remote_step('step//input.py//outer/fee', lambda: {'base': base})
    async def fee(x):
        ...

    @__tenuto__.remote_step('step//input.py//outer/total', lambda: {'base': base, 'rows': rows})
    async def total(n):
        """Adds it all up."""

    def helper():
        depth = 3

        @__tenuto__.remote_step('step//input.py//outer/helper/deep', lambda: {'base': base, 'depth': depth})
        async def deep(*args, flag=note, **more):
            ...
        return deep
    return (await total(3), await helper()(1))
