from tenuto import step
from tenuto.model.decorators import workflow
durable = step(max_attempts=5)

@durable
async def f():
    return 1

@workflow
async def g():
    return 2
