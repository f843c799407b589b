async def a():
    "use workflow"

async def b():
    "use workflow"
    await a()
