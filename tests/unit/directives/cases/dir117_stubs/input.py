from abc import abstractmethod
from typing import Protocol, overload

@overload
async def f(x: int) -> int:
    "use step"

class P(Protocol):
    @staticmethod
    async def g(x):
        "use step"

class A:
    @staticmethod
    @abstractmethod
    async def h(x):
        "use step"
