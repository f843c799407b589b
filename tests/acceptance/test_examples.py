"""Every example does what it says, in one piece and rebuilt from what is stored after every turn."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenuto import Tenuto
from tenuto.errors import (
    QueryNotFoundError,
    RunCancelledError,
    RunFailedError,
    StepFailedError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.testing import Engine

EXAMPLES = Path(__file__).parents[2] / "examples"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=[False, True], ids=["in_one_piece", "crashing_everywhere"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = Engine(crash_everywhere=request.param, patience=0.01)
    yield engine
    engine.close()


def load(name: str) -> Any:
    """An example as it is when just imported: what stands for the outside is empty."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def elapsed(engine: Engine) -> timedelta:
    return datetime.fromtimestamp(engine.now_ms / 1000, UTC) - START


# --- a sequence


@pytest.fixture
def onboarding() -> Any:
    return load("onboarding")


async def test_onboarding_makes_an_account_says_hello_and_sends_tips_three_days_later(
    engine: Engine, onboarding: Any
) -> None:
    run = await engine.start(onboarding.onboard, "ada@example.com")
    await engine.advance("1h")
    assert onboarding.outbox == ["Welcome -> ada@example.com"]
    assert await run.result() == "account-1"
    assert onboarding.outbox == ["Welcome -> ada@example.com", "Three things to try -> ada@example.com"]
    assert elapsed(engine) == timedelta(days=3)


async def test_the_stage_of_an_onboarding_can_be_asked_for_at_any_time(engine: Engine, onboarding: Any) -> None:
    run = await engine.start(onboarding.onboard, "ada@example.com")
    assert await run.query("stage") == "not begun"
    await engine.advance("1h")
    assert await run.query(onboarding.stage) == "waiting to send tips"
    await run.result()
    assert await run.query("stage") == "done"


async def test_an_account_is_made_once_although_the_first_attempt_was_lost(
    engine: Engine, onboarding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreliable(dict[str, Any]):
        def setdefault(self, key: str, default: Any = None) -> Any:
            is_new = key not in self
            made = super().setdefault(key, default)
            if is_new:
                raise ConnectionError("it is made, but the answer was lost")
            return made

    monkeypatch.setattr(onboarding, "accounts", Unreliable())
    run = await engine.start(onboarding.onboard, "ada@example.com")
    assert await run.result() == "account-1"
    assert list(onboarding.accounts) == ["ada@example.com"]
    assert (await run.history())[0].attempts == 2


# --- an entity


@pytest.fixture
def counting() -> Any:
    return load("counter")


async def test_a_counter_adds_and_subtracts_until_it_is_done(engine: Engine, counting: Any) -> None:
    run = await engine.start(counting.counter)
    for name, args in (("increment", ()), ("increment", (5,)), ("decrement", ()), ("done", ())):
        await run.signal(name, *args)
    assert await run.result() == 5


async def test_a_counter_shows_its_value_while_it_counts(engine: Engine, counting: Any) -> None:
    run = await engine.start(counting.counter, 40)
    assert await run.query("value") == 0
    await run.signal("increment", 2)
    await engine.settle()
    assert await run.query("value") == 42


async def test_signals_sent_before_a_counter_ever_ran_are_counted(counting: Any) -> None:
    engine = Engine()
    run = await engine.start(counting.counter)
    for _ in range(3):
        await run.signal("increment")
    await run.signal("done")
    assert await run.result() == 3
    engine.close()


async def test_a_counter_that_counted_long_has_no_more_history_than_a_new_one(engine: Engine, counting: Any) -> None:
    run = await engine.start(counting.counter)
    longest = 0
    for _ in range(50):
        for _ in range(5):
            await run.signal("increment")
        await engine.settle()
        longest = max(longest, len(await run.history()))
    assert await run.query("value") == 250
    assert longest <= 1 + 100
    engine.crash()
    await run.signal("done")
    assert await run.result() == 250


async def test_a_signal_that_no_counter_understands_changes_nothing(engine: Engine, counting: Any) -> None:
    run = await engine.start(counting.counter)
    await run.signal("increment", "not a number")
    await run.signal("multiply", 3)
    await run.signal("increment")
    await run.signal("done")
    assert await run.result() == 1
    assert len([notice for notice in engine.notices if "increment" in notice]) == 1


# --- phases


@pytest.fixture
def cart() -> Any:
    return load("shopping_cart")


async def test_a_confirmed_cart_is_charged_and_gets_its_receipt(engine: Engine, cart: Any) -> None:
    run = await engine.start(cart.shop)
    assert await run.update("add_item", "violin") == 1
    assert await run.update("add_item", "rosin") == 2
    assert await run.query("status") == cart.Status("open", 2)
    await run.signal("checkout")
    await engine.settle()
    assert await run.query("status") == cart.Status("confirming", 2, 131_100)
    assert list(cart.charges.values()) == [131_100]
    assert await run.update("confirm") == "thank you"
    assert await run.result() == 131_100
    assert await run.query("status") == cart.Status("done", 2, 131_100)
    assert cart.outbox == ["receipt for 1311.00"]


async def test_a_cancelled_cart_gets_its_money_back(engine: Engine, cart: Any) -> None:
    run = await engine.start(cart.shop)
    await run.update("add_item", "bow")
    await run.signal("checkout")
    assert await run.update("cancel") == "the money is on its way back"
    assert await run.result() is None
    assert (await run.query("status")).phase == "refunded"
    assert (cart.charges, cart.outbox) == ({}, [])


async def test_a_cart_that_nobody_confirms_is_given_back_after_a_day(engine: Engine, cart: Any) -> None:
    run = await engine.start(cart.shop)
    await run.update("add_item", "bow")
    await run.signal("checkout")
    await engine.advance("23h")
    assert list(cart.charges.values()) == [8_900]
    assert await run.result() is None
    assert cart.charges == {}
    assert elapsed(engine) == timedelta(days=1)


async def test_a_cart_refuses_what_the_shop_does_not_sell(engine: Engine, cart: Any) -> None:
    run = await engine.start(cart.shop)
    with pytest.raises(UpdateRejectedError, match="we do not sell 'piano'"):
        await run.update("add_item", "piano")
    assert await run.update("add_item", "bow") == 1
    assert await run.update("remove_item", "bow") == 0
    assert (await run.query("status")).item_count == 0


async def test_a_cart_takes_in_each_phase_only_what_belongs_to_it(engine: Engine, cart: Any) -> None:
    run = await engine.start(cart.shop)
    with pytest.raises(UpdateRejectedError, match="not_accepting"):
        await run.update("confirm")
    await run.signal("checkout")
    with pytest.raises(UpdateRejectedError, match="not_accepting"):
        await run.update("add_item", "bow")
    assert await run.update("confirm") == "thank you"


# --- fan-out


@pytest.fixture
def batch() -> Any:
    return load("batch")


async def test_a_batch_counts_all_its_items(engine: Engine, batch: Any) -> None:
    run = await engine.start(batch.process_batch, ["one", "one two", "one two three"])
    assert await run.result() == 6
    assert batch.archive == {"one": 1, "one two": 2, "one two three": 3}


async def test_an_empty_batch_is_no_words(engine: Engine, batch: Any) -> None:
    run = await engine.start(batch.process_batch, [])
    assert await run.result() == 0
    assert await run.history() == []


async def test_a_batch_with_bad_items_processes_the_others_and_says_which_failed(engine: Engine, batch: Any) -> None:
    run = await engine.start(batch.process_batch, ["one", "  ", "one two", ""])
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    error = failed.value.__cause__
    assert isinstance(error, batch.BatchError)
    assert error.failures == {"  ": "there is nothing in it", "": "there is nothing in it"}
    assert (error.processed, str(error)) == (2, "2 of 4 items failed")
    assert batch.archive == {"one": 1, "one two": 2}


async def test_items_that_were_done_before_a_crash_are_not_processed_again(
    engine: Engine, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    gate = asyncio.Event()

    async def process(text: str) -> int:
        began.append(text)
        if text == "slow":
            await gate.wait()
        return 1

    monkeypatch.setattr(batch.process, "fn", process)
    run = await engine.start(batch.process_batch, ["fast", "slow"])
    await engine.settle()
    engine.crash()
    gate.set()
    assert await run.result() == 2
    assert began == ["fast", "slow", "slow"]


async def test_no_more_than_ten_items_of_a_batch_are_under_way_at_once(
    engine: Engine, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = most = 0

    async def process(text: str) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 1

    monkeypatch.setattr(batch.process, "fn", process)
    run = await engine.start(batch.process_batch, [str(n) for n in range(25)])
    assert await run.result() == 25
    assert most == 10


# --- async updates


@pytest.fixture
def shop() -> Any:
    return load("inventory")


async def test_restocking_answers_with_the_shelf_at_the_current_price(engine: Engine, shop: Any) -> None:
    run = await engine.start(shop.inventory)
    assert await run.update("restock", "bow", 3) == shop.Shelf(3, 8_900)
    shop.price_list["bow"] = 9_500
    assert await run.update("restock", "bow", 2) == shop.Shelf(5, 9_500)
    assert await run.query("quantity", "bow") == 5
    await run.signal("close")
    assert await run.result() == {"bow": shop.Shelf(5, 9_500)}


async def test_selling_is_answered_while_a_price_is_being_looked_up(
    engine: Engine, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slowly(sku: str) -> int:
        if sku == "violin":
            asked.set()
            await gate.wait()
        return int(shop.price_list[sku])

    monkeypatch.setattr(shop.current_price, "fn", slowly)
    run = await engine.start(shop.inventory)
    await run.update("restock", "bow", 3)
    restocking = asyncio.create_task(run.update("restock", "violin", 1))
    await asked.wait()
    assert await run.update("sell", "bow", 2) == 17_800
    assert await run.query("quantity", "violin") == 0
    gate.set()
    assert await restocking == shop.Shelf(1, 129_900)
    await run.signal("close")
    assert await run.result() == {"bow": shop.Shelf(1, 8_900), "violin": shop.Shelf(1, 129_900)}


async def test_more_than_there_is_cannot_be_sold(engine: Engine, shop: Any) -> None:
    run = await engine.start(shop.inventory)
    with pytest.raises(UpdateRejectedError, match="only 0 of 'bow' left"):
        await run.update("sell", "bow", 1)
    await run.update("restock", "bow", 1)
    assert await run.update("sell", "bow", 1) == 8_900
    with pytest.raises(UpdateRejectedError, match="only 0"):
        await run.update("sell", "bow", 1)


async def test_a_price_that_cannot_be_had_fails_that_update_and_nothing_else(engine: Engine, shop: Any) -> None:
    run = await engine.start(shop.inventory)
    with pytest.raises(UpdateFailedError) as failed:
        await run.update("restock", "piano", 1)
    assert isinstance(failed.value.__cause__, StepFailedError)
    assert await run.update("restock", "bow", 1) == shop.Shelf(1, 8_900)
    await run.signal("close")
    assert list(await run.result()) == ["bow"]


async def test_an_update_that_is_sent_again_restocks_once(engine: Engine, shop: Any) -> None:
    run = await engine.start(shop.inventory)
    for _ in range(2):
        assert await run.update("restock", "bow", 3, id="delivery-17") == shop.Shelf(3, 8_900)
    assert await run.query("quantity", "bow") == 3


# --- side effects


@pytest.fixture
def intake() -> Any:
    return load("order_intake")


async def test_an_order_has_the_number_it_was_given_first(engine: Engine, intake: Any) -> None:
    run = await engine.start(intake.take_order, "Ada")
    assert await run.result() == intake.Order(1001, "Ada", platform.node(), START)
    assert intake.ledger == [(1001, "Ada")]
    assert next(intake.numbers) == 1002  # no number was taken twice, whatever was replayed


async def test_an_orders_number_is_there_before_its_work_is_done(
    engine: Engine, intake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def enter(number: int, customer: str) -> None:
        await gate.wait()

    monkeypatch.setattr(intake.enter_in_ledger, "fn", enter)
    run = await engine.start(intake.take_order, "Ada")
    await engine.settle()
    assert await run.query() == {"number": 1001, "status": "processing"}
    engine.crash()
    gate.set()
    assert (await run.result()).number == 1001
    assert await run.query() == {"number": 1001, "status": "entered"}


async def test_two_orders_have_two_numbers(engine: Engine, intake: Any) -> None:
    runs = [await engine.start(intake.take_order, name) for name in ("Ada", "Bela")]
    assert [(await run.result()).number for run in runs] == [1001, 1002]


# --- continue as new


@pytest.fixture
def collector() -> Any:
    return load("event_collector")


async def test_events_are_written_in_batches_under_one_id(engine: Engine, collector: Any) -> None:
    run = await engine.start(collector.collect, id="events")
    for event in ("a", "b"):
        await run.signal("event", event)
    await engine.settle()
    assert await run.query("waiting") == 2
    await run.signal("flush")
    await engine.settle()
    assert await run.query("waiting") == 0
    assert collector.written == [("a", "b")]
    await run.signal("event", "c")
    await run.signal("close")
    assert await run.result() == 2
    assert collector.written == [("a", "b"), ("c",)]


async def test_events_sent_behind_a_flush_are_in_the_next_batch_in_order(engine: Engine, collector: Any) -> None:
    run = await engine.start(collector.collect)
    for name, args in (("event", ("a",)), ("flush", ()), ("event", ("b",)), ("event", ("c",)), ("close", ())):
        await run.signal(name, *args)
    assert await run.result() == 2
    assert collector.written == [("a",), ("b", "c")]


async def test_events_are_written_after_a_day_without_being_asked(engine: Engine, collector: Any) -> None:
    run = await engine.start(collector.collect)
    await run.signal("event", "a")
    await engine.advance("24h")
    assert collector.written == [("a",)]
    assert await run.query("waiting") == 0
    await engine.advance("10 days")
    await run.signal("close")
    assert await run.result() == 1  # days without events write nothing


async def test_each_run_of_a_collector_begins_with_an_empty_history(engine: Engine, collector: Any) -> None:
    run = await engine.start(collector.collect)
    for _ in range(5):
        for event in range(10):
            await run.signal("event", str(event))
        await run.signal("flush")
    await engine.settle()
    assert len(collector.written) == 5
    assert [entry.location for entry in await run.history()] == ["receive/timer"]


# --- an agent


@pytest.fixture
def agent() -> Any:
    return load("agent")


async def test_an_agent_gives_money_back_once_a_person_has_approved(engine: Engine, agent: Any) -> None:
    run = await engine.start(agent.assist, "Please refund order A7")
    await engine.advance("1h")
    assert await run.query("waiting_for") == "approve-2"
    assert agent.refunds == {}
    await run.signal("approve-2", True)
    assert await run.result() == "Done: order A7 is refunded."
    assert list(agent.refunds.values()) == ["A7"]
    assert await run.query("waiting_for") is None
    assert await run.query("transcript") == [
        "user: Please refund order A7",
        "assistant: find_order {'number': 'A7'}",
        "tool: order A7: 42.00",
        "assistant: refund {'number': 'A7'}",
        "tool: order A7 is refunded",
        "assistant: Done: order A7 is refunded.",
    ]


async def test_an_agent_that_is_refused_does_not_act(engine: Engine, agent: Any) -> None:
    run = await engine.start(agent.assist, "Please refund order A7")
    await run.signal("approve-2", False)
    assert await run.result() == "I am sorry: failed: nobody approved refund."
    assert agent.refunds == {}


async def test_an_agent_takes_a_days_silence_for_a_no(engine: Engine, agent: Any) -> None:
    run = await engine.start(agent.assist, "Please refund order A7")
    assert await run.result() == "I am sorry: failed: nobody approved refund."
    assert elapsed(engine) == timedelta(days=1)
    assert agent.refunds == {}


async def test_an_agent_tells_the_model_what_went_wrong_with_a_tool(engine: Engine, agent: Any) -> None:
    run = await engine.start(agent.assist, "Please refund order B9")
    answer = await run.result()
    assert "there is no order B9" in answer
    assert agent.refunds == {}


async def test_an_answer_of_the_model_is_paid_for_once(
    engine: Engine, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    model = agent.model

    def counted(messages: tuple[Any, ...]) -> Any:
        asked.append(len(messages))
        return model(messages)

    monkeypatch.setattr(agent, "model", counted)
    run = await engine.start(agent.assist, "Please refund order A7")
    await engine.advance("1h")
    engine.crash()
    await engine.settle()
    await run.signal("approve-2", True)
    await run.result()
    assert asked == [1, 3, 5]


async def test_an_agent_that_goes_in_circles_is_stopped_and_its_history_stays_small(
    engine: Engine, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 0

    def circling(messages: tuple[Any, ...]) -> Any:
        nonlocal longest
        longest = max(longest, len(messages))
        return agent.ToolCall("find_order", {"number": "A7"})

    monkeypatch.setattr(agent, "model", circling)
    run = await engine.start(agent.assist, "Where is it?")
    assert await run.result() == "I could not find out."
    assert longest == agent.MEMORY
    assert len(await run.history()) <= 1 + 2 * 6  # the loop, and two steps in each of the turns it keeps


async def test_a_late_approval_is_not_taken_for_another_call(
    engine: Engine, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def insisting(messages: tuple[Any, ...]) -> Any:
        if len(messages) > 4:
            return agent.Answer(messages[-1].text)
        return agent.ToolCall("refund", {"number": "A7"})

    monkeypatch.setattr(agent, "model", insisting)
    run = await engine.start(agent.assist, "Refund A7")
    await engine.advance("25h")  # the first call was not approved in time
    assert await run.query("waiting_for") == "approve-2"
    await run.signal("approve-1", True)
    assert await run.result() == "failed: nobody approved refund"
    assert agent.refunds == {}


# --- a saga


@pytest.fixture
def trip() -> Any:
    return load("trip")


async def test_a_trip_is_booked_and_paid(engine: Engine, trip: Any) -> None:
    run = await engine.start(trip.travel, "Ada", "Rome")
    assert await run.result() == ["flight Rome", "hotel Rome", "car Rome"]
    assert trip.diary == [
        *("book flight Rome", "book hotel Rome", "book car Rome", "pay 80000"),
        "mail 3 bookings to Ada",
    ]


async def test_what_was_booked_is_cancelled_last_first_when_the_car_is_gone(engine: Engine, trip: Any) -> None:
    trip.sold_out.add("car")
    run = await engine.start(trip.travel, "Ada", "Rome")
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, StepFailedError)
    assert str(failed.value.__cause__.__cause__) == "no car left in Rome"
    assert trip.diary == ["book flight Rome", "book hotel Rome", "cancel hotel Rome", "cancel flight Rome"]


async def test_a_trip_that_cannot_be_paid_is_cancelled_whole(engine: Engine, trip: Any) -> None:
    trip.budget["Ada"] = 500
    run = await engine.start(trip.travel, "Ada", "Rome")
    with pytest.raises(RunFailedError):
        await run.result()
    assert trip.diary[-3:] == ["cancel car Rome", "cancel hotel Rome", "cancel flight Rome"]
    assert trip.budget["Ada"] == 500


async def test_a_paid_trip_stays_booked_although_the_mail_bounced(engine: Engine, trip: Any) -> None:
    trip.sold_out.add("mail")
    run = await engine.start(trip.travel, "Ada", "Rome")
    with pytest.raises(RunFailedError):
        await run.result()
    assert trip.diary[-1] == "pay 80000"
    assert trip.budget["Ada"] == 20_000


async def test_a_cancellation_that_fails_is_tried_again_before_the_next(
    engine: Engine, trip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    class Diary(list[str]):
        def append(self, entry: str) -> None:
            if entry == "cancel hotel Rome" and not refused:
                refused.append(entry)
                raise ConnectionError("the hotel does not answer")
            super().append(entry)

    monkeypatch.setattr(trip, "diary", Diary())
    trip.sold_out.add("car")
    run = await engine.start(trip.travel, "Ada", "Rome")
    with pytest.raises(RunFailedError):
        await run.result()
    assert refused == ["cancel hotel Rome"]
    assert trip.diary[2:] == ["cancel hotel Rome", "cancel flight Rome"]


async def test_a_trip_that_is_called_off_under_way_is_undone(
    engine: Engine, trip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = trip.book.fn

    async def wait_at_the_car(what: str, place: str, cents: int) -> Any:
        if what == "car":
            await asyncio.Event().wait()
        return await book(what, place, cents)

    monkeypatch.setattr(trip.book, "fn", wait_at_the_car)
    run = await engine.start(trip.travel, "Ada", "Rome")
    await engine.settle()
    await run.cancel("the conference is online")
    with pytest.raises(RunCancelledError):
        await run.result()
    assert trip.diary[-2:] == ["cancel hotel Rome", "cancel flight Rome"]


# --- a polling loop


@pytest.fixture
def feed() -> Any:
    return load("feed")


async def test_a_feed_is_delivered_to_its_end_each_entry_once(engine: Engine, feed: Any) -> None:
    feed.entries.extend([*(f"entry {n}" for n in range(50)), "end"])
    run = await engine.start(feed.follow)
    assert await run.result() == 50
    assert feed.delivered == feed.entries[:50]


async def test_a_silent_feed_is_asked_less_and_less_often(
    engine: Engine, feed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    fetch = feed.fetch.fn

    async def noted(cursor: int) -> Any:
        asked.append(elapsed(engine).total_seconds())
        return await fetch(cursor)

    monkeypatch.setattr(feed.fetch, "fn", noted)
    run = await engine.start(feed.follow)
    await engine.advance("200s")
    assert asked == [0, 2, 6, 14, 30, 62, 122, 182]
    feed.entries.extend(["news", "end"])
    assert await run.result() == 1
    assert feed.delivered == ["news"]


async def test_the_history_of_a_poller_does_not_grow(engine: Engine, feed: Any) -> None:
    feed.entries.extend(f"entry {n}" for n in range(180))  # sixty pages of four steps each
    run = await engine.start(feed.follow)
    await engine.settle()
    assert await run.query("delivered") == 180
    assert len(await run.history()) <= 1 + 2 * 20 * 4


async def test_a_poller_goes_on_in_another_run_where_it_was(engine: Engine, feed: Any) -> None:
    feed.PAGES_PER_RUN = 15
    feed.entries.extend(f"entry {n}" for n in range(100))  # 34 pages
    run = await engine.start(feed.follow, id="feed")
    await engine.advance("1s")
    assert (await run.query())["run"] == 3
    assert await run.query("delivered") == 100
    feed.entries.append("end")
    assert await run.result() == 100
    assert feed.delivered == feed.entries[:100]


async def test_a_fetch_that_fails_is_tried_again_without_losing_the_place(
    engine: Engine, feed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([True, False, True, True, False])
    fetch = feed.fetch.fn

    async def failing(cursor: int) -> Any:
        if next(failures, False):
            raise ConnectionError("no answer")
        return await fetch(cursor)

    monkeypatch.setattr(feed.fetch, "fn", failing)
    feed.entries.extend([*(f"entry {n}" for n in range(7)), "end"])
    run = await engine.start(feed.follow)
    assert await run.result() == 7
    assert feed.delivered == feed.entries[:7]


# --- on an app, over each store


async def test_an_app_counts(app: Tenuto, counting: Any) -> None:
    run = await app.start(counting.counter)
    for _ in range(250):
        await run.signal("increment")
    await run.signal("done")
    assert await run.result(timeout="20s") == 250


async def test_an_app_sells_a_cart(app: Tenuto, cart: Any) -> None:
    run = await app.start(cart.shop)
    assert await run.update("add_item", "bow", retry_for="10s") == 1
    with pytest.raises(UpdateRejectedError, match="we do not sell"):
        await run.update("add_item", "piano")
    await run.signal("checkout")
    assert await run.update("confirm", retry_for="10s") == "thank you"
    assert await run.result(timeout="20s") == 8_900
    assert await run.query("status") == cart.Status("done", 1, 8_900)


async def test_an_app_keeps_an_inventory(app: Tenuto, shop: Any) -> None:
    run = await app.start(shop.inventory)
    assert await run.update("restock", "bow", 3, retry_for="10s") == shop.Shelf(3, 8_900)
    assert await run.update("sell", "bow", 1) == 8_900
    await run.signal("close")
    assert await run.result(timeout="20s") == {"bow": shop.Shelf(2, 8_900)}


async def test_an_app_collects_events_over_several_runs(app: Tenuto, collector: Any) -> None:
    run = await app.start(collector.collect)
    for name, args in (("event", ("a",)), ("flush", ()), ("event", ("b",)), ("event", ("c",)), ("close", ())):
        await run.signal(name, *args)
    assert await run.result(timeout="20s") == 2
    assert collector.written == [("a",), ("b", "c")]


async def test_an_app_runs_an_agent(app: Tenuto, agent: Any) -> None:
    run = await app.start(agent.assist, "Please refund order A7")
    await run.signal("approve-2", True)
    assert await run.result(timeout="20s") == "Done: order A7 is refunded."
    assert list(agent.refunds.values()) == ["A7"]


async def test_an_app_undoes_a_trip(app: Tenuto, trip: Any) -> None:
    trip.sold_out.add("car")
    run = await app.start(trip.travel, "Ada", "Rome")
    with pytest.raises(RunFailedError):
        await run.result(timeout="20s")
    assert trip.diary == ["book flight Rome", "book hotel Rome", "cancel hotel Rome", "cancel flight Rome"]


async def test_an_app_follows_a_feed_over_several_runs(app: Tenuto, feed: Any) -> None:
    feed.PAGES_PER_RUN = 15
    feed.entries.extend([*(f"entry {n}" for n in range(100)), "end"])
    run = await app.start(feed.follow)
    assert await run.result(timeout="20s") == 100
    assert feed.delivered == feed.entries[:100]


# --- all of them


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_first_what_it_shows(path: Path) -> None:
    described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert described is not None
    assert described.splitlines()[0].endswith(".")


async def test_asking_for_what_no_example_answers_names_what_there_is(engine: Engine, counting: Any) -> None:
    run = await engine.start(counting.counter)
    with pytest.raises(QueryNotFoundError, match="value"):
        await run.query("total")
