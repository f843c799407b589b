#__internal_workflows{"steps":{"input.py":{"Outer.Inner.m":{"stepId":"step//input.py//Outer.Inner.m"},"Outer.build/part":{"stepId":"step//input.py//Outer.build/part"}}},"classes":{"input.py":{"Outer.Inner":{"classId":"class//input.py//Outer.Inner"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())
