#__internal_workflows{"workflows":{"input.py":{"check_out":{"workflowId":"checkout"}}}}
from tenuto.model import compiled as __tenuto__
from tenuto import workflow_options

def logged(fn):
    return fn

@__tenuto__.workflow_stub('checkout', name='checkout', queue='slow')
async def check_out(card: str, cents: int=100, tags=[], *, at=None, limit=-1, sizes=(1, 2)) -> str:
    """Sells something."""
