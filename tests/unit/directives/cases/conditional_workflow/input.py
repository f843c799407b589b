import sys

if sys.platform == "win32":
    async def deploy(target):
        "use workflow"
        return "windows", target
else:
    async def deploy(target):
        "use workflow"
        return "other", target
