async def f():
    x = 1
    "use step"

async def g():
    x = 1
    "use step"

async def h():
    with open("x"):
        "use step"

async def i():
    try:
        "use workflow"
    finally:
        pass
