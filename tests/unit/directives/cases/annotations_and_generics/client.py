#__internal_workflows{"workflows":{"input.py":{"process":{"workflowId":"workflow//input.py//process"}}},"steps":{"input.py":{"load":{"stepId":"step//input.py//load"}}}}
from __future__ import annotations
from tenuto.model import compiled as __tenuto__
from dataclasses import dataclass

@dataclass
class Order:
    id: int

@__tenuto__.local_step('step//input.py//load')
async def load(order: Order, depth: int=1) -> Order:
    return order

@__tenuto__.workflow_stub('workflow//input.py//process')
async def process(order: Order) -> Order:
    ...
