class Outer:
    class Inner:
        @staticmethod
        async def m(x):
            "use step"
            return x

    def build(self, size):
        async def part(n):
            "use step"
            return n * size
        return part
