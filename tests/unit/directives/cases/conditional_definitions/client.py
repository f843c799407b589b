#__internal_workflows{"steps":{"input.py":{"render":{"stepId":"step//input.py//render"}}}}
from tenuto.model import compiled as __tenuto__
try:
    import fastpdf
except ImportError:

    @__tenuto__.local_step('step//input.py//render', line=4)
    async def render(doc):
        return doc.upper()
else:

    @__tenuto__.local_step('step//input.py//render', line=6)
    async def render(doc):
        return fastpdf.render(doc)
