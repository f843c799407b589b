class Half:
    def __workflow_serialize__(self): return 1

class Child(Half):
    def __workflow_serialize__(self): return 2
