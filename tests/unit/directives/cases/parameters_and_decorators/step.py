#__internal_workflows{"steps":{"input.py":{"book":{"stepId":"step//input.py//book"}}}}
from tenuto.model import compiled as __tenuto__
from tenuto import step_options
AISLE = False

def timed(fn):
    return fn

@__tenuto__.step('step//input.py//book', max_attempts=5)
@timed
async def book(seat, /, row, *extras, aisle=AISLE, **meta):
    return seat
