"""The programs in `examples/twf` do what they say: on stores, on virtual time, and rebuilt after every turn."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tenuto.cli import main
from tenuto.errors import RunFailedError
from tenuto.model.registry import default
from tenuto.testing import Engine
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import load_program

EXAMPLES = Path(__file__).parents[2] / "examples" / "twf"
NAMES = ("order", "cart", "report", "poller", "trip")


@pytest.fixture(autouse=True)
def empty_library() -> Iterator[None]:
    sorts: tuple[Any, ...] = ("workflow", "step")
    before = {item.id for sort in sorts for item in default.definitions(sort)}
    kept = dict(default.provided(TwfProvider).library.programs), list(default.provided(TwfProvider).library.bindings)
    yield
    for sort in sorts:
        for item in default.definitions(sort):
            if item.id not in before:
                default.forget(item.id)
    default.provided(TwfProvider).library.programs, default.provided(TwfProvider).library.bindings = kept


@pytest.fixture(params=[False, True], ids=["in_one_piece", "crashing_everywhere"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = Engine(crash_everywhere=request.param, patience=5)
    yield engine
    engine.close()


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"twf_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    load_program(EXAMPLES / f"{name}.twf", bindings=module.bindings)
    return module


EXPECTED: dict[str, Any] = {
    "order": {"status": "shipped", "tracking": "A7-2", "receipt": "rcpt-ada", "total": 1200},
    "cart": {"status": "ordered", "items": 3, "to": "Elm Street 1"},
    "report": {
        "headline": "all quiet",
        "cities": 3,
        "warm": ["Lisbon", "Rome"],
        "ratings": [37, 17, 40],
        "best": 40,
    },
    "poller": {"url": "https://example.org/feed", "version": 3, "looks": 6},
    "trip": {"status": "cancelled", "because": "no car is free", "undone": ["flight", "hotel"]},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_an_example_runs_to_its_end(name: str, store: str, tmp_path: Path) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'example.db'}"
    assert await example(name).main(url) == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_findings_and_is_formatted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    checked = CliRunner().invoke(main, ["twf", "check", f"{name}.twf", "--bindings", name, "--warnings-as-errors"])
    assert checked.exit_code == 0, checked.output
    assert CliRunner().invoke(main, ["twf", "fmt", "--check", f"{name}.twf"]).exit_code == 0


async def test_a_small_order_needs_no_approval(engine: Engine) -> None:
    order = example("order")
    run = await engine.start("OrderWorkflow", order.Order(order.Customer("bob"), [order.Item("pen", 3)]))
    assert (await run.result())["total"] == 3
    assert order.OUTBOX == []


async def test_an_order_nobody_approves_fails_after_two_days(engine: Engine) -> None:
    order = example("order")
    large = order.Order(order.Customer("ada"), [order.Item("desk", 2000)])
    run = await engine.start("OrderWorkflow", large)
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    failure: Any = raised.value.__cause__
    assert (failure.type, failure.message) == ("ApprovalExpired", "nobody approved it")
    assert failure.details["total"] == 2000


async def test_a_declined_card_is_tried_once_and_fails_the_order(engine: Engine) -> None:
    order = example("order")
    run = await engine.start(
        "OrderWorkflow", order.Order(order.Customer("eve", card="tok_declined"), [order.Item("pen", 3)])
    )
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    failure: Any = raised.value.__cause__
    assert (failure.type, failure.source) == ("CardDeclined", "ChargeCard")


async def test_a_cart_reminds_once_and_is_then_given_up(engine: Engine) -> None:
    cart = example("cart")
    started = engine.now_ms
    run = await engine.start("Cart", "ada")
    await run.signal("Add", "tea", 2)
    assert await run.query("Count", "tea") == 2
    assert await run.result() == {"status": "abandoned", "items": 2}
    assert cart.REMINDED == ["ada"]
    assert engine.now_ms - started == 2 * 86_400_000


async def test_a_poller_begins_a_new_history_and_goes_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    poller = example("poller")
    poller.bindings.activities.pop("Look")
    poller.bindings.activity("Look")(lambda url, seen: 3 if len(poller.LOOKS) > 60 else poller.LOOKS.append(seen) or 0)
    run = await engine.start("Poller", "u", 0, "10ms")
    assert (await run.result())["version"] == 3
    assert (await engine.rows(run.id)).counters.generation == 1


def test_the_cart_is_simulated_by_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    result = CliRunner().invoke(
        main,
        ["twf", "simulate", "cart.twf", "--arg", "owner=ada", "--bindings", "cart", "--script", "cart.script.jsonl"],
    )
    assert result.exit_code == 0, result.output
    assert '"status": "ordered"' in result.output
