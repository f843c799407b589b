from tenuto import step_options

@step_options(max_attempts=2)
async def f():
    return 1
