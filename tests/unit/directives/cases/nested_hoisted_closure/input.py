async def pack(items, box="M"):
    "use workflow"
    async def label(text, size=len(items)):
        "use step"
        return f"{box}{size}:{text}"
    return [await label(i) for i in items]
