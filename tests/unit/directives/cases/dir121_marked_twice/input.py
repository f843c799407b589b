from tenuto import step, workflow

@step
async def a():
    "use step"

@step
@workflow
async def b(): return 1
