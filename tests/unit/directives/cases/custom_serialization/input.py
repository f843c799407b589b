class Span:
    def __init__(self, lo, hi): self.lo, self.hi = lo, hi
    def __workflow_serialize__(self): return [self.lo, self.hi]
    @classmethod
    def __workflow_deserialize__(cls, data): return cls(*data)

Alias = Span
