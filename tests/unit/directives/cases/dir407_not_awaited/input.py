async def charge(card): "use step"

async def w(card):
    "use workflow"
    charge(card)
    kept = charge(card)
    await kept
