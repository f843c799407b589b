async def f():
    "use step"
    yield 1

def g():
    "use step"
    yield from ()
