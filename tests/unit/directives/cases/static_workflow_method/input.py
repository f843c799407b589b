class Jobs:
    __limit = 3

    @staticmethod
    async def run(job):
        """Runs a job."""
        "use workflow"
        async def part(n):
            "use step"
            return n + Jobs.__limit
        return await part(job) + Jobs.__limit
