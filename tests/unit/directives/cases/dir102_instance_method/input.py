from tenuto import step

class C:
    async def m(self):
        "use step"

    @step
    @staticmethod
    async def n(x): return x
