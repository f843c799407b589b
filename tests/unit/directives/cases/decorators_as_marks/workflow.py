#__internal_workflows{"workflows":{"input.py":{"checkout":{"workflowId":"workflow//input.py//checkout"}}},"steps":{"input.py":{"charge":{"stepId":"pay"},"cut":{"stepId":"step//input.py//cut"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('pay', max_attempts=2, name='pay')
async def charge(card):
    ...

@__tenuto__.remote_step('step//input.py//cut')
def cut(text):
    ...

@__tenuto__.workflow('workflow//input.py//checkout', queue='slow')
@below
async def checkout(card):
    return await charge(card)
