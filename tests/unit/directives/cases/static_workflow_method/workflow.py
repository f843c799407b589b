#__internal_workflows{"workflows":{"input.py":{"Jobs.run":{"workflowId":"workflow//input.py//Jobs.run"}}},"steps":{"input.py":{"Jobs.run/part":{"stepId":"step//input.py//Jobs.run/part"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//Jobs.run', 'Jobs.run')
async def _tenuto_Jobs__run(job):
    """Runs a job."""

    @__tenuto__.remote_step('step//input.py//Jobs.run/part')
    async def part(n):
        ...
    return await part(job) + Jobs._Jobs__limit
