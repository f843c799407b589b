class C:
    def m(self):
        async def uses_self():
            "use step"
            return self.x
        return uses_self

def local_deco(fn): return fn

async def w(path):
    "use workflow"
    def helper(): return 1
    class Thing: ...
    double = lambda x: 2 * x
    wrap = local_deco
    with open(path) as file:
        async def uses_file():
            "use step"
            return file.read()
    async def uses_helper():
        "use step"
        return helper()
    async def uses_class():
        "use step"
        return Thing()
    async def uses_lambda():
        "use step"
        return double(1)
    @wrap
    async def decorated():
        "use step"
