"""Testing workflows in this process, on virtual time: no server, no sleeping.

    from tenuto.testing import Engine

    async def test_a_reminder_is_sent_after_a_week(engine: Engine):      # the fixture of the pytest plugin
        run = await engine.start(remind, "ada")
        assert await run.result() == "reminded"                          # seven days pass in milliseconds

`Engine(crash_everywhere=True)` rebuilds every run from its committed rows after every turn; `engine.crash()` loses
everything that was in memory; `check_replay` holds a recorded history against the present code.
"""

from tenuto.host.history import HistoryEntry
from tenuto.testing.engine import Engine
from tenuto.testing.recorded import Recorded, check_replay
from tenuto.testing.runs import Run

__all__ = ["Engine", "HistoryEntry", "Recorded", "Run", "check_replay"]
