from decimal import Decimal
from tenuto import deserializer, serializable, serializer

@serializable
class Span:
    def __init__(self, lo, hi): self.lo, self.hi = lo, hi

    @serializer
    def out(self): return [self.lo, self.hi]

    @deserializer
    @classmethod
    def back(cls, data): return cls(*data)

Money = serializable(Decimal, serialize=str, deserialize=Decimal)
