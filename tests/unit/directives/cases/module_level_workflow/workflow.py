#!/usr/bin/env python
# -*- coding: utf-8 -*-
#__internal_workflows{"workflows":{"input.py":{"nap":{"workflowId":"workflow//input.py//nap"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//nap')
async def nap(hours):
    return timedelta(hours=hours)
