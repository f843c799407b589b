def make(n):
    async def inner(x):
        "use workflow"
        async def part(y):
            "use step"
            return y + n
        return await part(x)
    return inner
