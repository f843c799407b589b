class Base: ...

class C(Base):
    @classmethod
    async def a(cls):
        "use step"
        return super().a()

    @staticmethod
    async def b():
        "use step"
        return __class__
