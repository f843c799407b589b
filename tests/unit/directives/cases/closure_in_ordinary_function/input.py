def rounder(digits):
    async def rounded(x):
        "use step"
        return round(x, digits)
    return rounded
