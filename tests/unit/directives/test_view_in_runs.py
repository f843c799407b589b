"""What workflow code sees of clocks, chance, the machine and I/O while it runs."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tenuto.errors import ForeignCallError

Load = Callable[..., ModuleType]

DIRECTIVE = "async def w({args}):\n    'use workflow'\n"
DECORATOR = "@tenuto.workflow\nasync def w({args}):\n"


@pytest.fixture(params=[DIRECTIVE, DECORATOR], ids=["directive", "decorator"])
def workflow(request: pytest.FixtureRequest, load: Load) -> Callable[..., Any]:
    """Load a module with one workflow of this body, marked in either way (D085: they must behave the same)."""

    def make(body: str, head: str = "", args: str = "", **others: str) -> Any:
        text = "".join(f"    {line}\n" for line in body.splitlines())
        return load(f"import tenuto\n{head}\n{request.param.format(args=args)}{text}", **others)

    return make


async def test_d075_time_moves_with_the_run_only(workflow: Any, engine: Any) -> None:
    module = workflow(
        "import time\na, b = time.time(), time.time()\nawait tenuto.sleep('1h')\n"
        "return a, b, time.time(), time.monotonic(), time.time_ns(), time.gmtime().tm_year, time.strftime('%Y')"
    )
    a, b, later, monotonic, nanoseconds, year, text = await engine.run(module.w)
    assert a == b == 1_767_225_600
    assert later >= a + 3600
    assert monotonic == later
    assert nanoseconds == int(later * 1000) * 1_000_000
    assert (year, text) == (2026, "2026")


async def test_d076_a_clock_under_another_name_is_still_the_runs(workflow: Any, engine: Any) -> None:
    module = workflow("from time import time as inner\nreturn clock(), inner()", "from time import time as clock")
    assert await engine.run(module.w) == (1_767_225_600, 1_767_225_600)
    assert module.clock() > 1_767_225_600.0


async def test_d077_datetimes_are_real_ones_in_utc(workflow: Any, engine: Any) -> None:
    module = workflow(
        "now = datetime.datetime.now()\nhere = datetime.datetime.now(datetime.timezone.utc)\n"
        "assert isinstance(now, datetime.datetime) and isinstance(now, datetime.date)\n"
        "match now:\n    case datetime.datetime(): pass\n    case _: raise TypeError\n"
        "assert datetime.datetime(2020, 1, 1) == datetime.datetime.fromisoformat('2020-01-01')\n"
        "assert issubclass(datetime.datetime, datetime.date)\n"
        "return now, here, datetime.datetime.utcnow(), datetime.date.today(), type(now).__name__",
        "import datetime",
    )
    now, here, utc, today, name = await engine.run(module.w)
    assert type(now) is datetime.datetime
    assert now == utc == datetime.datetime(2026, 1, 1)  # noqa: DTZ001  # naive means UTC
    assert here.tzinfo is not None
    assert (today, name) == (datetime.date(2026, 1, 1), "datetime")


async def test_d078_chance_is_the_same_after_a_crash(workflow: Any, crashing: Any) -> None:
    module = workflow(
        "drawn = [random.random(), uuid.uuid4(), random.Random().random(), random.choice(range(10**9))]\n"
        "kept = await echo(drawn)\nawait tenuto.sleep(1)\n"
        "assert random.Random(4).random() == random.Random(4).random()\nreturn drawn, kept",
        "import random, uuid\n@tenuto.step\nasync def echo(x): return x",
    )
    drawn, kept = await crashing.run(module.w)
    assert drawn == kept
    assert drawn[1].version == 4


@pytest.mark.parametrize(
    "call",
    [
        "secrets.token_hex()",
        "os.environ['HOME']",
        "os.environ.get('HOME')",
        "os.getenv('HOME')",
        "os.urandom(4)",
        "os.getpid()",
        "platform.node()",
        "time.sleep(0)",
        "time.process_time()",
        "random.seed(1)",
        "random.SystemRandom()",
        "uuid.uuid1()",
        "threading.Thread(target=print)",
    ],
)
@pytest.mark.parametrize("mark", [DIRECTIVE, DECORATOR], ids=["directive", "decorator"])
async def test_d079_the_machine_is_not_for_workflows_but_for_modules(
    load: Load, engine: Any, call: str, mark: str
) -> None:
    head = "import os, platform, random, secrets, threading, time, uuid\nimport tenuto\n"
    ignore = "# tenuto: ignore[DIR402, DIR404]"
    module = load(f"{head}at_import = {call}\n{mark.format(args='')}    {call}  {ignore}\n")
    with pytest.raises(ForeignCallError) as caught:
        await engine.run(module.w)
    assert call.partition("(")[0].partition("[")[0].removesuffix(".get") in str(caught.value)
    assert caught.value.__notes__[0] == "in workflow workflow//m.py//w"
    assert module.at_import is None or module.at_import is not None


async def test_d080_files_fail_in_workflows_and_work_in_steps(load: Load, engine: Any, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("data")
    module = load(
        "async def read(path):\n    'use step'\n    with open(path) as f: return f.read()\n"
        "async def direct(path):\n    'use workflow'\n    return open(path).read()  # tenuto: ignore[DIR402]\n"
        "async def by_step(path):\n    'use workflow'\n    return await read(path)\n"
    )
    with pytest.raises(ForeignCallError, match=r"open\(\)"):
        await engine.run(module.direct, str(tmp_path / "data.txt"))
    assert await engine.run(module.by_step, str(tmp_path / "data.txt")) == "data"


async def test_d080_third_party_code_is_guarded_too(load: Load, engine: Any) -> None:
    module = load(
        "import socket\nimport urllib.request\nimport sqlite3\nimport subprocess\n"
        "async def w(what):\n    'use workflow'\n"
        "    if what == 'socket': socket.create_connection(('127.0.0.1', 9))  # tenuto: ignore[DIR402]\n"
        "    if what == 'sqlite': sqlite3.connect(':memory:')  # tenuto: ignore[DIR402]\n"
        "    if what == 'process': subprocess.run(['true'])  # tenuto: ignore[DIR402]\n"
    )
    for what in ("socket", "sqlite", "process"):
        with pytest.raises(ForeignCallError):
            await engine.run(module.w, what)


async def test_imports_logging_and_tracebacks_are_allowed_in_a_turn(load: Load, engine: Any, project: Any) -> None:
    project({"late.py": "VALUE = 3\ndef read(): return VALUE\n"})
    module = load(
        "import logging, traceback, zoneinfo\nasync def w():\n"
        "    'use workflow'\n    import late, json.tool, xml.dom.minidom\n"
        "    logging.getLogger('x').debug('hello')\n    zoneinfo.ZoneInfo.no_cache('Europe/Berlin')\n"
        "    try: 1 / 0\n    except ZeroDivisionError: return late.read(), len(traceback.format_exc()) > 9\n"
    )
    assert await engine.run(module.w) == (3, True)


async def test_d081_module_code_runs_once(load: Load, engine: Any) -> None:
    module = load(
        "import counter\ncounter.n += 1\nasync def w():\n    'use workflow'\n    return counter.n\n", counter="n = 0\n"
    )
    assert await engine.run(module.w) == 1
    assert sys.modules["counter"].n == 1


async def test_d082_ordinary_functions_of_other_project_files_see_the_runs_clock(workflow: Any, engine: Any) -> None:
    module = workflow(
        "return clocks.read(), read(), clocks.pkg.inner.read()",
        "import clocks\nfrom clocks import read",
        clocks="import time\nimport pkg.inner\nimport pkg\ndef read(): return time.time()\n",
        **{"pkg/__init__": "", "pkg/inner": "from time import time\ndef read(): return time()\n"},
    )
    assert await engine.run(module.w) == (1_767_225_600,) * 3


async def test_d083_methods_read_the_real_clock_and_are_reported(project: Any, engine: Any) -> None:
    project(
        {
            "m.py": (
                "import time\nclass C:\n    def read(self): return time.time()\n"
                "async def w():\n    'use workflow'\n    return C().read()\n"
            )
        }
    )
    from tenuto.directives import install

    install()
    with pytest.warns(UserWarning, match="DIR405"):
        import m  # type: ignore[import-not-found]
    assert await engine.run(m.w) > 1_767_225_600


async def test_d084_print_is_silent_while_replaying(
    workflow: Any, crashing: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    module = workflow(
        "await tenuto.sleep(1)\nprint('before')\nawait tenuto.sleep(1)\nprint('after')\nawait tenuto.sleep(1)"
    )
    await crashing.run(module.w)
    assert capsys.readouterr().out == "before\nafter\n"


async def test_d084_the_first_turn_of_a_run_prints(
    workflow: Any, engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await engine.run(workflow("print('at once')\nawait tenuto.sleep(1)").w)
    assert capsys.readouterr().out == "at once\n"


async def test_rebinding_a_global_stays_in_the_view(load: Load, engine: Any) -> None:
    module = load(
        "N = 1\nasync def w():\n    'use workflow'\n    global N  # tenuto: ignore[DIR207]\n    N = 5\n    return N\n"
    )
    assert await engine.run(module.w) == 5
    assert module.N == 1


async def test_side_effects_may_look_at_the_real_world(load: Load, engine: Any) -> None:
    module = load(
        "import os\nfrom tenuto import side_effect\nasync def w():\n    'use workflow'\n"
        "    return await side_effect(lambda: os.getpid())  # tenuto: ignore[DIR402]\n"
    )
    assert await engine.run(module.w) == os.getpid()
