N = 0

async def f():
    "use step"
    global N
    N += 1
