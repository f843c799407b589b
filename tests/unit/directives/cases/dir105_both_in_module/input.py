"use step"
"use workflow"
async def f(): return 1
