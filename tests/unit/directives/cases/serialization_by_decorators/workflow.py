#__internal_workflows{"classes":{"input.py":{"Money":{"classId":"class//input.py//Money"},"Span":{"classId":"class//input.py//Span"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())
