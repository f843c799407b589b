#__internal_workflows{"classes":{"input.py":{"Span":{"classId":"class//input.py//Span"}}}}
from tenuto.model import compiled as __tenuto__

class Span:

    def __init__(self, lo, hi):
        self.lo, self.hi = (lo, hi)

    def __workflow_serialize__(self):
        return [self.lo, self.hi]

    @classmethod
    def __workflow_deserialize__(cls, data):
        return cls(*data)
__tenuto__.serializable('class//input.py//Span', Span)
Alias = Span
