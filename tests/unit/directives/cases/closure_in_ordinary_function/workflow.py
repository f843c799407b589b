#__internal_workflows{"steps":{"input.py":{"rounder/rounded":{"stepId":"step//input.py//rounder/rounded"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())
