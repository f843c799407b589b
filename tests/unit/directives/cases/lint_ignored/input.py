import time

async def w():
    "use workflow"
    time.sleep(1)  # tenuto: ignore[DIR402]
    time.sleep(2)  # tenuto: ignore[DIR407]
