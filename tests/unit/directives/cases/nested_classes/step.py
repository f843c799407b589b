#__internal_workflows{"steps":{"input.py":{"Outer.Inner.m":{"stepId":"step//input.py//Outer.Inner.m"},"Outer.build/part":{"stepId":"step//input.py//Outer.build/part"}}},"classes":{"input.py":{"Outer.Inner":{"classId":"class//input.py//Outer.Inner"}}}}
from tenuto.model import compiled as __tenuto__

class Outer:

    class Inner:

        @staticmethod
        @__tenuto__.step('step//input.py//Outer.Inner.m')
        async def m(x):
            return x

    def build(self, size):

        @__tenuto__.local_step('step//input.py//Outer.build/part', lambda: {'size': size})
        async def part(n):
            return n * size
        return part
__tenuto__.serializable('class//input.py//Outer.Inner', Outer.Inner)

@__tenuto__.hoisted_step('step//input.py//Outer.build/part', 'Outer.build.<locals>.part')
async def _tenuto_Outer__build__part(n):
    size, = __tenuto__.closure('size')
    return n * size
