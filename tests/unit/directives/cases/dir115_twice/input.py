async def a(): "use step"
async def a(): "use step"

if True:
    async def b(): "use step"
else:
    async def b(): "use workflow"

try:
    async def c(): "use step"
except Exception:
    pass
else:
    async def c(): "use step"

async def w(flag):
    "use workflow"
    if flag:
        async def d(): "use step"
    else:
        async def d(): "use step"
