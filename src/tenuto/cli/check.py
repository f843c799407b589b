"""`tenuto check`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import click

from tenuto.cli.connect import Place, finish, json_option, on_cluster, with_store
from tenuto.cli.output import echo_json, progress, safe, say, table
from tenuto.directives.doubts import findings_of
from tenuto.directives.errors import Finding, describe, to_json
from tenuto.host.checking import Verdict, check_runs, open_runs
from tenuto.host.definitions import Definitions
from tenuto.model.definitions import Workflow, definition_of
from tenuto.model.ids import short_name
from tenuto.model.registry import default
from tenuto.model.static_names import name_doubts

__all__ = ["command"]


@click.command("check")
@click.option("--against", metavar="URL", help="The store whose open runs are replayed; the same as --url.")
@click.option("--workflow", "workflows", multiple=True, help="Only runs of this workflow; may be repeated.")
@click.option("--known-only", is_flag=True, help="Runs of workflows that are not loaded here are no finding.")
@json_option
@with_store
def command(place: Place, against: str | None, workflows: tuple[str, ...], known_only: bool, as_json: bool) -> None:
    """Replay the open runs of a store with the code loaded here, and say which would diverge, and where.

    Before a deploy: nothing is executed, and nothing is written; the store is opened for reading only, and its schema
    stays as it is.

    \b
    tenuto check --against postgresql://prod/app --app shop.orders

    Also says, with the line, what prevents the names of a workflow's operations from being listed (DIR408): of such a
    workflow a renamed step is noticed only after it has run again.

    Exit code 0: every open run fits. 1: some would be parked, or their workflow is not loaded here.
    """
    if not place.apps:
        raise click.UsageError("whose code? Name it with --app MODULE|FILE or TENUTO_APP")
    if against is not None:
        place = replace(place, url=against)

    async def on_a_cluster(targets: list[str] | None) -> list[Verdict]:
        async with place.reading() as app:
            engine = on_cluster(app)
            return await _all(engine.check(runs := await engine.to_check(targets)), len(runs))

    async def work() -> list[Verdict]:
        targets = [default.find(name, "workflow").id for name in workflows] or None
        if not place.is_native:
            return await on_a_cluster(targets)
        place.require_file()
        store = place.store(read_only=True)
        await store.open()
        try:
            records = await open_runs(store, targets)
            return await _all(check_runs(store, Definitions(default), records), len(records))
        finally:
            await store.close()

    verdicts = finish(work, place)
    findings = [v for v in verdicts if not v.fits and not (known_only and v.outcome == "unknown")]
    warnings = _unlisted(frozenset(default.find(name, "workflow").id for name in workflows))
    if as_json:
        outcomes = Counter(v.outcome for v in verdicts)
        listed = [to_json(warning) for warning in warnings]
        echo_json({"runs": len(verdicts), "outcomes": outcomes, "findings": findings, "warnings": listed})
    else:
        _print(verdicts, findings)
        for warning in warnings:
            say(safe(describe(warning)))
    sys.exit(1 if findings else 0)


def _unlisted(only: frozenset[str]) -> list[Finding]:
    """What prevents the names of the workflows that are loaded (or of these) from being listed."""
    found: dict[Finding, None] = {}
    loaded = [cast("Workflow[..., Any]", d) for d in default.definitions("workflow") if isinstance(d, Workflow)]
    for workflow in loaded:
        if (not only or workflow.id in only) and definition_of(workflow)[1] is None:
            found.update(dict.fromkeys(findings_of(name_doubts(workflow.fn))))
    return list(found)


async def _all(verdicts: AsyncIterator[Verdict], count: int) -> list[Verdict]:
    found: list[Verdict] = []
    with progress("replaying", count) as advance:
        async for verdict in verdicts:
            found.append(verdict)
            advance()
    return found


def _print(verdicts: list[Verdict], findings: list[Verdict]) -> None:
    if findings:
        rows = [(v.run_id, short_name(v.workflow), v.outcome, v.location, _what(v)) for v in findings]
        for line in table(("RUN", "WORKFLOW", "WOULD BE", "WHERE", "WHAT"), rows):
            say(line)
        say()
    counts: Counter[str] = Counter(verdict.outcome for verdict in verdicts)
    words = {"fits": "fit", "diverges": "would diverge", "unknown": "of unknown workflows", "unreadable": "unreadable"}
    parts = [f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome]]
    count = "1 open run" if len(verdicts) == 1 else f"{len(verdicts)} open runs"
    say(": ".join([count, *([", ".join(parts)] if parts else [])]))
    for fix in sorted({_fix(verdict) for verdict in findings} - {""}):
        say(f"next: {safe(fix)}")


def _what(verdict: Verdict) -> str:
    if verdict.recorded:
        return f"{verdict.code} history has {verdict.recorded}; the code asked for {verdict.asked}"
    return verdict.message.splitlines()[0] if verdict.message else ""


def _fix(verdict: Verdict) -> str:
    """The last line of an error says what to do."""
    lines = [line.strip() for line in verdict.message.splitlines()]
    fixes = [line.removeprefix("next").strip() for line in lines if line.startswith("next ")]
    return fixes[-1] if fixes else ""
