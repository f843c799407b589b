import os
import secrets
import time
from os import environ
from pathlib import Path
from urllib.request import urlopen

async def w(url):
    "use workflow"
    open("x")
    os.environ["A"]
    environ.get("A")
    secrets.token_hex()
    time.sleep(1)
    Path("x").read_text()
    urlopen(url)
    os.listdir(".")  # tenuto: ignore[DIR402]
    helper()
    return time.time()

def helper():
    input()

async def fine():
    "use step"
    return open("x").read()
