#__internal_workflows{"steps":{"input.py":{"_hidden":{"stepId":"step//input.py//_hidden"},"also":{"stepId":"step//input.py//also"},"shown":{"stepId":"step//input.py//shown"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//_hidden')
async def _hidden():
    ...

@__tenuto__.remote_step('step//input.py//shown')
async def shown():
    ...

@__tenuto__.remote_step('step//input.py//also')
async def also():
    ...
