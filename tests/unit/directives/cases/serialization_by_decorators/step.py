#__internal_workflows{"classes":{"input.py":{"Money":{"classId":"class//input.py//Money"},"Span":{"classId":"class//input.py//Span"}}}}
from tenuto.model import compiled as __tenuto__
from decimal import Decimal
from tenuto import deserializer, serializable, serializer

class Span:

    def __init__(self, lo, hi):
        self.lo, self.hi = (lo, hi)

    @serializer
    def out(self):
        return [self.lo, self.hi]

    @deserializer
    @classmethod
    def back(cls, data):
        return cls(*data)
__tenuto__.serializable('class//input.py//Span', Span)
Money = __tenuto__.serializable('class//input.py//Money', Decimal, serialize=str, deserialize=Decimal)
