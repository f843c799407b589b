#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"fine":{"stepId":"step//input.py//fine"}}}}
from tenuto.model import compiled as __tenuto__
import os
import secrets
import time
from os import environ
from pathlib import Path
from urllib.request import urlopen

@__tenuto__.workflow_stub('workflow//input.py//w')
async def w(url):
    ...

def helper():
    input()

@__tenuto__.local_step('step//input.py//fine')
async def fine():
    return open('x').read()
