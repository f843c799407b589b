from tenuto import workflow_options

def logged(fn): return fn

@logged
@workflow_options(name="checkout", queue="slow")
async def check_out(card: str, cents: int = 100, tags=[], *, at=None, limit=-1, sizes=(1, 2)) -> str:
    """Sells something."""
    "use workflow"
    return card
