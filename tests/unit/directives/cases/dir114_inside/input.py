def f():
    class C:
        @staticmethod
        async def s():
            "use step"

async def w():
    "use workflow"
    async def inner():
        "use workflow"
