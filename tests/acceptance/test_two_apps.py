"""Two apps in one process: each runs what its own registry has, and sees of the other's only what they share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenuto import Registry, Task, Tenuto, detach, spawn, step, wait_for_signal, workflow
from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError, DuplicateIdError, TwfError
from tenuto.model.registry import current, default
from tenuto.twf import Bindings, load_program


@workflow(name="two-apps-everybody")
async def everybody() -> str:
    return "of the default registry"


def price_of(answer: str, registry: Registry) -> Any:
    """The step `price`, which a module of that shop would have."""

    async def price(item: str) -> str:
        return f"{item} {answer}"

    price.__qualname__ = "price"
    return registry.step(name="price", queue="prices")(price)


def shop(answer: str) -> Registry:
    """A registry with the ids that every shop has, and answers of its own."""
    registry = Registry()

    price = price_of(answer, registry)

    @registry.workflow(name="two-apps-sell")
    async def sell(item: str) -> list[Any]:
        by_name = await Task.run("price", item)
        called = await price(item)
        return [answer, by_name, called]

    @registry.workflow(name="order")
    async def order(item: str) -> Any:
        return await (await spawn(sell, item))

    @registry.workflow(name="gives-step")
    async def gives_step() -> Any:
        return price

    @registry.workflow(name="takes-step")
    async def takes_step(given: Any) -> Any:
        return await given("tea")

    @sell.query("who")
    def who(state: object) -> str:
        return answer

    return registry


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Two stores: one each."""
    match request.param:
        case "memory":
            return "memory://", "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'one.db'}", f"sqlite:///{tmp_path / 'two.db'}"
        case _:
            return request.getfixturevalue("postgres_url"), f"sqlite:///{tmp_path / 'two.db'}"


@pytest.fixture
async def apps(urls: tuple[str, str]) -> AsyncIterator[tuple[Tenuto, Tenuto]]:
    async with both(urls, shop("cheap"), shop("dear")) as found:
        yield found


@asynccontextmanager
async def both(urls: tuple[str, str], *registries: Registry) -> AsyncGenerator[tuple[Tenuto, Tenuto]]:
    first, second = (Tenuto(url, registry=one, grace=1) for url, one in zip(urls, registries, strict=True))
    async with first, second:
        yield first, second


async def result(app: Tenuto, name: str, *args: object) -> Any:
    return await (await app.start(name, *args)).result(timeout="20s")


async def test_a_name_means_the_definition_of_its_own_app(apps: tuple[Tenuto, Tenuto]) -> None:
    cheap, dear = apps
    for _ in range(3):  # of both at once: the contexts they are called from are the same
        assert await result(cheap, "two-apps-sell", "tea") == ["cheap", "tea cheap", "tea cheap"]
        assert await result(dear, "two-apps-sell", "tea") == ["dear", "tea dear", "tea dear"]


async def test_a_child_and_a_task_are_of_the_app_of_their_run(apps: tuple[Tenuto, Tenuto]) -> None:
    cheap, dear = apps
    assert await result(cheap, "order", "tea") == ["cheap", "tea cheap", "tea cheap"]
    assert await result(dear, "order", "tea") == ["dear", "tea dear", "tea dear"]
    assert await (await cheap.enqueue("price", "tea")).result(timeout="20s") == "tea cheap"
    assert await (await dear.enqueue("price", "tea")).result(timeout="20s") == "tea dear"


async def test_a_query_is_answered_by_the_code_of_its_own_app(apps: tuple[Tenuto, Tenuto]) -> None:
    for app, answer in zip(apps, ("cheap", "dear"), strict=True):
        run = await app.start("two-apps-sell", "tea", id="asked")
        await run.result(timeout="20s")
        assert await run.query("who") == answer


async def test_a_step_as_a_value_is_the_one_of_the_app_that_reads_it(apps: tuple[Tenuto, Tenuto]) -> None:
    for app, answer in zip(apps, ("cheap", "dear"), strict=True):
        given = await result(app, "gives-step")
        assert await given("tea") == f"tea {answer}"
        assert await result(app, "takes-step", given) == f"tea {answer}"


async def test_an_app_does_not_see_what_only_others_have_registered(urls: tuple[str, str]) -> None:
    mine = Registry()

    @mine.workflow(name="only-mine")
    async def only_mine() -> str:
        return "mine"

    async with both(urls, mine, shop("dear")) as (first, second):
        assert await result(first, "only-mine") == "mine"
        with pytest.raises(DefinitionNotFoundError, match="only-mine"):
            await second.start("only-mine")
        with pytest.raises(DefinitionNotFoundError, match="price"):
            await first.enqueue("price", "tea")
        for app in (first, second):
            with pytest.raises(DefinitionNotFoundError, match="two-apps-everybody"):
                await app.start("two-apps-everybody")
    assert default.get("only-mine") is None


async def test_a_run_cannot_name_what_its_app_does_not_have(urls: tuple[str, str]) -> None:
    poor = Registry()

    @poor.workflow(name="asks")
    async def asks() -> str:
        try:
            await Task.run("price", "tea")
        except DefinitionNotFoundError:
            return "there is none"
        return "there is one"

    async with both(urls, poor, shop("dear")) as (first, _):
        assert await result(first, "asks") == "there is none"


async def test_what_is_registered_in_both_is_shared(urls: tuple[str, str]) -> None:
    one, two = Registry(), Registry()
    one.register(everybody)
    two.register(everybody)
    async with both(urls, one, two) as found:
        for app in found:
            assert await result(app, "two-apps-everybody") == "of the default registry"


async def test_a_common_parent_is_shared_and_an_own_definition_goes_before_it(urls: tuple[str, str]) -> None:
    common = shop("common")
    special = Registry(common)

    price_of("special", special)
    async with both(urls, Registry(common), special) as (plain, other):
        assert await result(plain, "two-apps-sell", "tea") == ["common", "tea common", "tea common"]
        assert await result(other, "two-apps-sell", "tea") == [
            "common",
            "tea special",
            "tea special",
        ]  # its queue carries ids


async def test_the_same_registry_makes_two_apps_see_the_same(urls: tuple[str, str]) -> None:
    shared = shop("shared")
    async with both(urls, shared, shared) as found:
        for app in found:
            assert await result(app, "two-apps-sell", "tea") == ["shared", "tea shared", "tea shared"]


async def test_without_a_registry_an_app_has_what_decorators_have_registered(urls: tuple[str, str]) -> None:
    default.register(everybody)  # other tests may have emptied it
    async with Tenuto(urls[0], grace=1) as plain, Tenuto(urls[1], registry=shop("dear"), grace=1):
        assert await result(plain, "two-apps-everybody") == "of the default registry"
        with pytest.raises(DefinitionNotFoundError):
            await plain.start("two-apps-sell", "tea")


async def test_workers_of_one_store_leave_each_other_what_only_the_other_knows(urls: tuple[str, str]) -> None:
    if urls[0] == "memory://":
        pytest.skip("two apps on memory are two stores")
    mine = Registry()

    @mine.workflow(name="waits")
    async def waits() -> str:
        return str(await wait_for_signal("go"))

    async with both((urls[0], urls[0]), mine, shop("dear")) as (first, second):
        run = await first.start("waits")
        sold = await second.start("two-apps-sell", "tea")
        assert (await sold.result(timeout="20s"))[0] == "dear"
        await second.get(run.id).signal("go", 1)
        assert await run.result(timeout="20s") == "1"


async def test_a_run_starts_another_registrys_run_by_its_object(urls: tuple[str, str]) -> None:
    """The object says the id; who executes it is decided in the run's own app."""
    mine, others = shop("cheap"), shop("dear")
    sell: Any = others.get("two-apps-sell")

    @mine.workflow(name="starts")
    async def starts() -> str:
        return await detach(sell, "tea")

    async with both(urls, mine, others) as (cheap, _):
        run_id = await result(cheap, "starts")
        assert (await cheap.get(run_id).result(timeout="20s"))[0] == "cheap"


def test_a_registry_refuses_a_second_definition_with_an_id() -> None:
    registry = shop("cheap")
    with pytest.raises(DuplicateIdError):

        @registry.workflow(name="two-apps-sell")
        async def another() -> None: ...

    assert registry.find("two-apps-sell", "workflow").fn.__qualname__.endswith("sell")


def test_a_registrys_decorators_leave_the_default_one_alone() -> None:
    registry = shop("cheap")
    assert {item.id for item in registry.definitions("workflow")} == {
        "gives-step",
        "order",
        "two-apps-sell",
        "takes-step",
    }
    assert [item.id for item in registry.definitions("step")] == ["price"]
    assert default.get("two-apps-sell") is None
    assert current() is default


def test_names_of_a_parent_and_of_its_child_are_told_apart() -> None:
    parent, child = Registry(), Registry()
    child.parent = parent
    for registry, name in ((parent, "workflow//a.py//same"), (child, "workflow//b.py//same")):

        @registry.workflow(name=name)
        async def same() -> None: ...

    with pytest.raises(AmbiguousNameError):
        child.find("same", "workflow")
    assert parent.find("same", "workflow").id == "workflow//a.py//same"


def test_the_decorators_of_the_package_register_in_the_default_registry() -> None:
    @step(name="two-apps-step")
    def work() -> None: ...

    assert default.get("two-apps-step") is work  # type: ignore[comparison-overlap]
    default.forget("two-apps-step")


# --- programs, which a provider brings

PROGRAM = """workflow Buy(item: string) -> (string):
    activity Price(item) -> price
    close price

activity Price(item: string) -> (string):
    return "nobody"
"""
WAITS = """workflow Waits() -> (bool):
    signal go(n: int):
        done = true
    done = false
    await timer(1h)
    close done
"""


def programs(answer: str, registry: Registry) -> Registry:
    bindings = Bindings()

    @bindings.activity("Price")
    async def price(item: str) -> str:
        return f"{item} {answer}"

    load_program(files={"buy.twf": PROGRAM}, bindings=bindings, registry=registry)
    return registry


async def test_a_program_calls_the_functions_of_its_own_app(urls: tuple[str, str]) -> None:
    async with both(urls, programs("cheap", Registry()), programs("dear", Registry())) as (cheap, dear):
        for _ in range(2):
            assert await result(cheap, "Buy", "tea") == "tea cheap"
            assert await result(dear, "Buy", "tea") == "tea dear"
    assert default.get("Buy") is None


async def test_a_program_of_a_parent_is_shared(urls: tuple[str, str]) -> None:
    common = programs("common", Registry())
    async with both(urls, Registry(common), Registry()) as (child, other):
        assert await result(child, "Buy", "tea") == "tea common"
        with pytest.raises(DefinitionNotFoundError):
            await other.start("Buy", "tea")


async def test_an_app_runs_a_stores_program_with_steps_of_its_own_registry(urls: tuple[str, str]) -> None:
    """The text comes from the store; who performs its activities is looked for in the app's registry."""
    if urls[0] == "memory://":
        pytest.skip("two apps on memory are two stores")
    async with Tenuto(urls[0], registry=programs("gone", Registry()), worker=False) as client:
        run = await client.start("Buy", "tea")
    later = Registry()

    @later.step(name="Price")
    async def price(item: str) -> str:
        return f"{item} later"

    load_program(files={"other.twf": "workflow Other() -> (int):\n    close 1\n"}, registry=later)
    async with Tenuto(urls[0], registry=later, grace=1) as app:
        assert await app.get(run.id).result(timeout="20s") == "tea later"


async def test_a_signal_is_checked_by_the_provider_of_the_runs_app(urls: tuple[str, str]) -> None:
    registry = Registry()
    load_program(files={"waits.twf": WAITS}, registry=registry)
    async with both(urls, registry, Registry()) as (app, _):
        run = await app.start("Waits")
        with pytest.raises(TwfError, match="signal go takes"):
            await run.signal("go")
