"use step"
"use step"
async def f():
    "use step"
    "use step"
    return 1
