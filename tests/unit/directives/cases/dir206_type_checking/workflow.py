from typing import TYPE_CHECKING
if TYPE_CHECKING:

    async def f():
        """use step"""
