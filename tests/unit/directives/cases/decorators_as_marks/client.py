#__internal_workflows{"workflows":{"input.py":{"checkout":{"workflowId":"workflow//input.py//checkout"}}},"steps":{"input.py":{"charge":{"stepId":"pay"},"cut":{"stepId":"step//input.py//cut"}}}}
from tenuto.model import compiled as __tenuto__
import tenuto
from tenuto import step as durable, workflow

def above(fn):
    return fn

def below(fn):
    return fn

@above
@__tenuto__.local_step('pay', max_attempts=2, name='pay')
@below
async def charge(card):
    return card

@__tenuto__.local_step('step//input.py//cut')
def cut(text):
    return text[:1]

@above
@__tenuto__.workflow_stub('workflow//input.py//checkout', queue='slow')
async def checkout(card):
    ...
