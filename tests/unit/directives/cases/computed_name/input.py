from tenuto import step, step_options

PREFIX = "shop"

@step(name=PREFIX + ".pay")
async def pay(card): return card

@step_options(name="ship")
async def send(order):
    "use step"
    return order
