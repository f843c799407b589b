#__internal_workflows{"steps":{"input.py":{"book":{"stepId":"step//input.py//book"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//book', max_attempts=5)
async def book(seat, /, row, *extras, aisle=__tenuto__.UNSET, **meta):
    ...
