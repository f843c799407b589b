"""Histories that earlier releases recorded replay on this one (P9), and what is recorded today will."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("histories")
RECORDED = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json.gz"))


def _load_definitions() -> None:
    if "tenuto_recorded" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_recorded", Path(__file__).with_name("recorded.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_recorded"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    """P9: payloads without a mark, commands of one task without limit, a cancelled run that waited for its task"""
    pytest.importorskip("temporalio")
    from temporalio.client import WorkflowHistory
    from temporalio.worker import Replayer

    from tenuto.temporal.settings import Site
    from tenuto.temporal.workflows import AtSite, TenutoWorkflow

    _load_definitions()
    written = gzip.decompress((FOLDER / name).read_bytes()).decode()
    run_id = json.loads(written)["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    history = WorkflowHistory.from_json(run_id, written)
    site = Site()
    replayer = Replayer(workflows=[TenutoWorkflow], interceptors=[AtSite(site)])
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    site.close()
    assert result.replay_failure is None, result.replay_failure
