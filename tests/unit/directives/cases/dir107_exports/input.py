"use step"
from os.path import *
import json as json

def plain(): return 1

class Thing: ...

async def fine(): return 2
