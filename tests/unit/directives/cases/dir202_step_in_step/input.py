async def outer():
    "use step"
    async def inner(x):
        """Plain."""
        "use step"
        return x
    return await inner(1)
