#__internal_workflows{"steps":{"input.py":{"reserve":{"stepId":"step//input.py//reserve"}}}}
"""Stock."""
from __future__ import annotations
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.remote_step('step//input.py//reserve')
async def reserve(sku, n):
    ...
