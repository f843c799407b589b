"use step"
LIMIT = 10
_HIDDEN = 11
async def reserve(n): return min(n, LIMIT)
