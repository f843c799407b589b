from tenuto import step_options

AISLE = False

def timed(fn): return fn

@timed
@step_options(max_attempts=5)
async def book(seat, /, row, *extras, aisle=AISLE, **meta):
    "use step"
    return seat
