#__internal_workflows{"steps":{"input.py":{"cut":{"stepId":"step//input.py//cut"}}}}
from tenuto.model import compiled as __tenuto__

@__tenuto__.local_step('step//input.py//cut')
def cut(b):
    return b[:1]
