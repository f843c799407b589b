async def w():
    "use workflow"
    n = 0
    async def s():
        "use step"
        nonlocal n
        n += 1
    return await s()
