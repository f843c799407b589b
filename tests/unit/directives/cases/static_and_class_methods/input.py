class Mailer:
    @staticmethod
    async def send(to):
        "use step"
        return f"sent {to}"
    @classmethod
    async def digest(cls, day):
        "use workflow"
        return await cls.send(day)
