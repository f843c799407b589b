#__internal_workflows{"steps":{"input.py":{"send":{"stepId":"ship"}}}}
from tenuto.model import compiled as __tenuto__
from tenuto import step, step_options
PREFIX = 'shop'

@__tenuto__.local_step('step//input.py//pay', name=PREFIX + '.pay')
async def pay(card):
    return card

@__tenuto__.local_step('ship', name='ship')
async def send(order):
    return order
