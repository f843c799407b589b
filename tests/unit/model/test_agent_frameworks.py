"""Agent frameworks that are written on asyncio or anyio run in workflows as they are."""

from __future__ import annotations

import pickle
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel

from tenuto import sleep, step, workflow


@step(name="agent.model")
async def answer(question: bytes) -> bytes:
    """Stands for a request to a model: here the framework's own test model answers."""
    asked.append("model")
    messages, settings, parameters = pickle.loads(question)  # noqa: S301  # this test's own bytes
    response = await TestModel().request(messages, settings, parameters)
    return pickle.dumps(response)


@step(name="agent.tool")
async def lookup(city: str) -> str:
    asked.append("tool")
    return f"sunny in {city}"


asked: list[str] = []


class DurableModel(WrapperModel):
    """A model whose requests are steps."""

    async def request(self, *request: Any) -> Any:
        return pickle.loads(await answer(pickle.dumps(request)))  # noqa: S301  # as above


async def test_an_agent_loop_of_pydantic_ai_runs_in_a_workflow_with_its_model_and_tools_as_steps(engine, locations):
    """M109: it is written on anyio"""
    asked.clear()
    agent = Agent(DurableModel(TestModel()), instructions="be brief")
    agent.tool_plain(name="weather")(lookup)

    @workflow(name="agent.agent")
    async def ask(question: str) -> str:
        result = await agent.run(question)
        await sleep("1h")
        return result.output

    run = await engine.start(ask, "what is the weather?")
    assert await run.result() == '{"weather":"sunny in a"}'
    assert asked == ["model", "tool", "model"]
    places = [at.rpartition("/")[2] for at in await locations(run)]
    assert places == ["agent.model", "agent.tool", "agent.model", "sleep"]
