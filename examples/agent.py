"""An assistant in a loop with its tools: every call is a step, and what costs money waits for a person.

The model is asked, the tool it chose is run, the result goes back to the model, until it answers. A crash repeats
neither an answer that was paid for nor a refund that was made. The conversation is published, so a page can show it and
who has to approve what. History stays bounded: the loop stores the conversation every few turns and forgets the
steps before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from tenuto import Break, Continue, FatalError, loop, publish_state, step, step_info, wait_for_signal, workflow
from tenuto.errors import StepFailedError

MEMORY = 40  # messages that the model gets to see
TURNS = 50  # then it has lost its way
NEEDS_APPROVAL = frozenset({"refund"})


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["user", "assistant", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model wants a tool."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Answer:
    """The model is done."""

    text: str


Decision: TypeAlias = ToolCall | Answer


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: tuple[Message, ...]
    turns: int = 0
    waiting_for: str | None = None  # the approval that a person has to give

    def plus(self, role: Literal["user", "assistant", "tool"], text: str) -> Conversation:
        return replace(self, messages=(*self.messages, Message(role, text))[-MEMORY:])


# --- what stands for the outside

orders: dict[str, int] = {"A7": 4_200}  # in cents
refunds: dict[str, str] = {}  # by idempotency key: a bank that sees a key twice pays once


def find_order(number: str) -> str:
    if number not in orders:
        raise FatalError(f"there is no order {number}")
    return f"order {number}: {orders[number] / 100:.2f}"


def refund(number: str) -> str:
    refunds[step_info().idempotency_key] = number
    return f"order {number} is refunded"


TOOLS = {"find_order": find_order, "refund": refund}


def model(messages: tuple[Message, ...]) -> Decision:
    """A few lines that stand for a large model: it looks the order up, gives the money back, and says so."""
    last = messages[-1]
    if last.role == "user":
        return ToolCall("find_order", {"number": last.text.split()[-1]})
    if last.text.startswith("order ") and ":" in last.text:
        return ToolCall("refund", {"number": last.text.split()[1].rstrip(":")})
    return Answer(f"I am sorry: {last.text}." if last.text.startswith("failed") else f"Done: {last.text}.")


# --- steps


@step(timeout="2m", max_attempts=5)
async def ask_model(messages: tuple[Message, ...]) -> Decision:
    return model(messages)


@step(timeout="1m")
async def run_tool(call: ToolCall) -> str:
    if call.tool not in TOOLS:
        raise FatalError(f"there is no tool {call.tool!r}")
    return TOOLS[call.tool](**call.arguments)


# --- the run


async def approved(chat: Conversation) -> bool:
    """Each call has a signal of its own: an approval that comes too late is not taken for the next call's."""
    name = f"approve-{chat.turns}"
    publish_state(replace(chat, waiting_for=name))
    try:
        verdict: bool = await wait_for_signal(name, timeout="1 day")
    except TimeoutError:
        return False
    return verdict


async def use_tool(call: ToolCall, chat: Conversation) -> str:
    """What the model is told: the result, or why there is none."""
    if call.tool in NEEDS_APPROVAL and not await approved(chat):
        return f"failed: nobody approved {call.tool}"
    try:
        return await run_tool(call)
    except StepFailedError as failure:
        return f"failed: {failure.__cause__}"


async def think(chat: Conversation) -> Continue[Conversation] | Break[str]:
    if chat.turns == TURNS:
        return Break("I could not find out.")
    decision = await ask_model(chat.messages)
    if isinstance(decision, Answer):
        publish_state(chat.plus("assistant", decision.text))
        return Break(decision.text)
    chat = replace(chat.plus("assistant", f"{decision.tool} {decision.arguments}"), turns=chat.turns + 1)
    publish_state(chat)
    chat = chat.plus("tool", await use_tool(decision, chat))
    publish_state(chat)
    return Continue(chat)


@workflow
async def assist(question: str) -> str:
    chat = Conversation((Message("user", question),))
    publish_state(chat)
    return await loop("think", chat, think, commit_interval=5)


@assist.query("waiting_for")
def waiting_for(published: Conversation | None) -> str | None:
    """The signal that a person has to send, with True or False."""
    return None if published is None else published.waiting_for


@assist.query("transcript")
def transcript(published: Conversation | None) -> list[str]:
    return [f"{message.role}: {message.text}" for message in published.messages] if published else []
