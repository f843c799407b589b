import os
"use step"

class C:
    "use step"
