"use step"
__all__ = ["_hidden"]
__all__ += ["shown"]
__all__.extend(["also"])

async def _hidden(): return 1
async def shown(): return 2
async def also(): return 3
async def not_exported(): return 4
