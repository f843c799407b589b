import functools
import os
import random
import time
from datetime import datetime

async def w():
    "use workflow"
    return Clock().read(), cached(), plain()

class Clock:
    def read(self):
        return datetime.now()

@functools.cache
def cached():
    return random.random(), os.environ["A"]

def plain():
    return time.time()
