#!/usr/bin/env python
# -*- coding: utf-8 -*-
#__internal_workflows{"workflows":{"input.py":{"nap":{"workflowId":"workflow//input.py//nap"}}}}
from tenuto.model import compiled as __tenuto__
from datetime import timedelta

@__tenuto__.workflow_stub('workflow//input.py//nap')
async def nap(hours):
    ...

async def _rest():
    return None
