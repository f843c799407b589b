#__internal_workflows{"steps":{"input.py":{"a":{"stepId":"step//input.py//a"},"b":{"stepId":"step//input.py//b"},"c":{"stepId":"step//input.py//c"},"d":{"stepId":"step//input.py//d"},"e":{"stepId":"step//input.py//e"},"f":{"stepId":"step//input.py//f"},"g":{"stepId":"step//input.py//g"},"h":{"stepId":"step//input.py//h"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//a')
async def a():
    ...

@__tenuto__.remote_step('step//input.py//b')
async def b():
    ...

@__tenuto__.remote_step('step//input.py//c')
async def c():
    ...

@__tenuto__.remote_step('step//input.py//d')
async def d():
    ...

@__tenuto__.remote_step('step//input.py//e')
async def e():
    ...

@__tenuto__.remote_step('step//input.py//f')
async def f():
    ...

@__tenuto__.remote_step('step//input.py//g')
async def g():
    """Doc."""

@__tenuto__.remote_step('step//input.py//h')
async def h():
    """Doc."""
