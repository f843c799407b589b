async def a(): 'use step'
async def b(): "use step"
async def c(): '''use step'''
async def d(): """use step"""
async def e(): ("use step")
async def f(): u"use step"
async def g():
    "use step"
    "Doc."
async def h():
    "Doc."
    # a comment
    "use step"
