"use step"
from tenuto import workflow

async def charge(card): return card

@workflow
async def checkout(card):
    return await charge(card)

def cut(text):
    "use step"
    return text[:1]
