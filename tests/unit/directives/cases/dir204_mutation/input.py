async def w(rows):
    "use workflow"
    seen = []
    found = {}
    async def s(x):
        "use step"
        seen.append(x)
        found["x"] = x
        local = []
        local.append(x)
        return x
    await s(1)
