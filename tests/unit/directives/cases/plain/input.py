async def quote(km, rate=0.5):
    """Price of a ride."""
    "use step"
    return km * rate

async def ride(km):
    "use workflow"
    return await quote(km)
