#__internal_workflows{"workflows":{"input.py":{"Mailer.digest":{"workflowId":"workflow//input.py//Mailer.digest"}}},"steps":{"input.py":{"Mailer.send":{"stepId":"step//input.py//Mailer.send"}}},"classes":{"input.py":{"Mailer":{"classId":"class//input.py//Mailer"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//Mailer.digest', 'Mailer.digest')
async def _tenuto_Mailer__digest(cls, day):
    return await cls.send(day)
