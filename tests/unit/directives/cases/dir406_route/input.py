class app:
    @staticmethod
    def post(path): return lambda fn: fn

@app.post("/orders")
async def order(item):
    "use workflow"
    return item
