from tenuto import step

def a():
    "use step"

@step
def b(): return 1
