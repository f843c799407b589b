#__internal_workflows{"workflows":{"input.py":{"check_out":{"workflowId":"checkout"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('checkout', name='checkout', queue='slow')
@logged
async def check_out(card, cents=100, tags=__tenuto__.UNSET, *, at=None, limit=-1, sizes=(1, 2)):
    """Sells something."""
    return card
