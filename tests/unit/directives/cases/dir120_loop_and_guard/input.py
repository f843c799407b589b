for n in range(3):
    async def f(): "use step"

if __name__ == "__main__":
    async def g(): "use workflow"
