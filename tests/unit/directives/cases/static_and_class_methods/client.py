#__internal_workflows{"workflows":{"input.py":{"Mailer.digest":{"workflowId":"workflow//input.py//Mailer.digest"}}},"steps":{"input.py":{"Mailer.send":{"stepId":"step//input.py//Mailer.send"}}},"classes":{"input.py":{"Mailer":{"classId":"class//input.py//Mailer"}}}}
from tenuto.model import compiled as __tenuto__

class Mailer:

    @staticmethod
    @__tenuto__.local_step('step//input.py//Mailer.send')
    async def send(to):
        return f'sent {to}'

    @classmethod
    @__tenuto__.workflow_stub('workflow//input.py//Mailer.digest')
    async def digest(cls, day):
        ...
__tenuto__.serializable('class//input.py//Mailer', Mailer)
