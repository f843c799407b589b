import tenuto
from tenuto import step as durable, workflow

def above(fn): return fn
def below(fn): return fn

@above
@durable(max_attempts=2, name="pay")
@below
async def charge(card): return card

@tenuto.step
def cut(text): return text[:1]

@above
@workflow(queue="slow")
@below
async def checkout(card):
    return await charge(card)
