"""Stock."""
from __future__ import annotations
"use step"
LIMIT = 10                                   # constant: tolerated
async def reserve(sku, n): return _clamp(n)
def _clamp(n): return min(n, LIMIT)          # private: not marked
