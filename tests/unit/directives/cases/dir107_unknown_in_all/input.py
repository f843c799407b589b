"use step"
from os import getcwd
__all__ = ["fine", "nowhere", "getcwd"]
__all__ += [name for name in ()]

async def fine(): return 2
