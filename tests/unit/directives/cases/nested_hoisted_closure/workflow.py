#__internal_workflows{"workflows":{"input.py":{"pack":{"workflowId":"workflow//input.py//pack"}}},"steps":{"input.py":{"pack/label":{"stepId":"step//input.py//pack/label"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//pack')
async def pack(items, box='M'):

    @__tenuto__.remote_step('step//input.py//pack/label', lambda: {'box': box})
    async def label(text, size=len(items)):
        ...
    return [await label(i) for i in items]
