#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}}}
from tenuto.model import compiled as __tenuto__
import functools
import os
import random
import time
from datetime import datetime

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w():
    ...

class Clock:

    def read(self):
        return datetime.now()

@functools.cache
def cached():
    return (random.random(), os.environ['A'])

def plain():
    return time.time()
