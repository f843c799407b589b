async def f():
    """Use step sizes below 3."""

async def g():
    """use"""
