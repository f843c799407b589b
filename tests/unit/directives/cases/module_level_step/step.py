#__internal_workflows{"steps":{"input.py":{"reserve":{"stepId":"step//input.py//reserve"}}}}
"""Stock."""
from __future__ import annotations
from tenuto.model import compiled as __tenuto__
LIMIT = 10

@__tenuto__.step('step//input.py//reserve')
async def reserve(sku, n):
    return _clamp(n)

def _clamp(n):
    return min(n, LIMIT)
