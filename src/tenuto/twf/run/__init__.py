"""Running TWF programs: an interpreter that is a workflow like any other.

    b = Bindings()

    @b.activity("ChargeCard")
    async def charge(order: Order) -> Receipt: ...

    load_program("flows/orders.twf", bindings=b)

`compiled` makes closures of a program once; `execution` is one run of a workflow over the model's port, with
`messages`, `durable` (calls and awaits), `gathering` and `racing`; `activities` are their statements as steps;
`library` is what this process has loaded.
"""

from __future__ import annotations

from .bindings import Bindings
from .compiled import CompiledProgram
from .loading import load_program
from .workflows import TwfWorkflow

__all__ = ["Bindings", "CompiledProgram", "TwfWorkflow", "load_program"]
