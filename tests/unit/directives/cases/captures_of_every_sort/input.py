async def outer(rows, note=None):
    "use workflow"
    import json
    from os import path as p
    base = 2

    async def fee(x):
        "use step"
        return x * base

    async def total(n):
        """Adds it all up."""
        "use step"
        if n == 0:
            return len(json.dumps(rows)) + len(p.sep)
        return await fee(n) + await total(n - 1)

    def helper():
        depth = 3
        async def deep(*args, flag=note, **more):
            "use step"
            return [depth + base for _ in args], flag, more
        return deep

    return await total(3), await helper()(1)
