#__internal_workflows{"workflows":{"input.py":{"Jobs.run":{"workflowId":"workflow//input.py//Jobs.run"}}},"steps":{"input.py":{"Jobs.run/part":{"stepId":"step//input.py//Jobs.run/part"}}}}
from tenuto.model import compiled as __tenuto__

class Jobs:
    __limit = 3

    @staticmethod
    @__tenuto__.workflow_stub('workflow//input.py//Jobs.run')
    async def run(job):
        """Runs a job."""

@__tenuto__.hoisted_step('step//input.py//Jobs.run/part', 'Jobs.run.<locals>.part')
async def _tenuto_Jobs__run__part(n):
    return n + Jobs._Jobs__limit
