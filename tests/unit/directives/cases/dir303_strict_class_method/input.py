class C:
    @classmethod
    async def m(cls):
        "use step"
