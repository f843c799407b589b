#__internal_workflows{"steps":{"input.py":{"make/inner/part":{"stepId":"step//input.py//make/inner/part"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())
