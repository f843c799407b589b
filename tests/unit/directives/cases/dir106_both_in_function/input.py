async def f():
    "use step"
    "use workflow"
