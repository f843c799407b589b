#!/usr/bin/env python
# -*- coding: utf-8 -*-
# A comment may come first.
"use workflow"
from datetime import timedelta

async def nap(hours):
    return timedelta(hours=hours)

async def _rest():
    return None
