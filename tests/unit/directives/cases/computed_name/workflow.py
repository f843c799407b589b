#__internal_workflows{"steps":{"input.py":{"send":{"stepId":"ship"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//pay', name=PREFIX + '.pay')
async def pay(card):
    ...

@__tenuto__.remote_step('ship', name='ship')
async def send(order):
    ...
