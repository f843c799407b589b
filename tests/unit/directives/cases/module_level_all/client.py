#__internal_workflows{"steps":{"input.py":{"_hidden":{"stepId":"step//input.py//_hidden"},"also":{"stepId":"step//input.py//also"},"shown":{"stepId":"step//input.py//shown"}}}}
from tenuto.model import compiled as __tenuto__
__all__ = ['_hidden']
__all__ += ['shown']
__all__.extend(['also'])

@__tenuto__.local_step('step//input.py//_hidden')
async def _hidden():
    return 1

@__tenuto__.local_step('step//input.py//shown')
async def shown():
    return 2

@__tenuto__.local_step('step//input.py//also')
async def also():
    return 3

async def not_exported():
    return 4
