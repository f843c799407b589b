import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

async def w(loop):
    "use workflow"
    threading.Thread(target=print).start()
    ThreadPoolExecutor()
    await asyncio.to_thread(print)
    await loop.run_in_executor(None, print)
