"""Graphs as people write them: without a word about the service."""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, Field


class ChatState(MessagesState):
    turns: Annotated[int, operator.add]


@dataclass
class Wishes:
    tone: str = "plain"


async def answer(state: ChatState, runtime: Runtime[Wishes]) -> dict[str, Any]:
    """Answers with what it was shown, so that a test can see it."""
    shown = " | ".join(message.text for message in state["messages"])
    tone = runtime.context.tone if runtime.context else "none"
    return {"messages": [AIMessage(f"[{tone}] shown: {shown}")], "turns": 1}


def chat_builder() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(ChatState, context_schema=Wishes)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder


builder = chat_builder()
compiled = chat_builder().compile()


class Sums(TypedDict):
    numbers: Annotated[list[int], operator.add]
    total: int


async def add_up(state: Sums) -> dict[str, Any]:
    return {"total": sum(state["numbers"])}


def sums() -> StateGraph[Any, Any, Any, Any]:
    """A factory that takes nothing; its state has no messages."""
    builder = StateGraph(Sums)
    builder.add_node("add_up", add_up)
    builder.add_edge(START, "add_up")
    return builder


class Appended(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


class Plain(TypedDict):
    messages: list[AnyMessage]


def _counting(schema: Any, write: Any) -> StateGraph[Any, Any, Any, Any]:
    async def count(state: Any) -> dict[str, Any]:
        return {"messages": write(state["messages"], AIMessage(f"{len(state['messages'])} messages"))}

    builder = StateGraph(schema)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    return builder


appended = _counting(Appended, lambda messages, said: [said])
plain = _counting(Plain, lambda messages, said: [*messages, said])


async def by_config(config: dict[str, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A graph for each run, after its configuration."""
    word = config["configurable"].get("word", "nothing")

    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"the word is {word}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    return builder


OPEN: list[str] = []


@asynccontextmanager
async def held_open() -> AsyncIterator[Any]:
    OPEN.append("open")
    try:
        yield compiled
    finally:
        OPEN.remove("open")


@asynccontextmanager
async def held_for_a_run(config: dict[str, Any]) -> AsyncIterator[Any]:
    async def tell(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"open: {name in OPEN}")]}

    name = config["configurable"].get("run_id", "no run")
    OPEN.append(name)
    try:
        builder = StateGraph(MessagesState)
        builder.add_node("tell", tell)
        builder.add_edge(START, "tell")
        yield builder.compile()
    finally:
        OPEN.remove(name)


class Asked(MessagesState):
    answer: str


async def ask(state: Asked) -> dict[str, Any]:
    return {"answer": interrupt({"question": "Which colour?"})}


async def close(state: Asked) -> dict[str, Any]:
    return {"messages": [AIMessage(f"So {state['answer']} it is.")]}


def asking() -> StateGraph[Any, Any, Any, Any]:
    """A question inside a subgraph."""
    inner = StateGraph(Asked)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer = StateGraph(Asked)
    outer.add_node("inner", inner.compile())
    outer.add_node("close", close)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "close")
    return outer


class Counted(MessagesState):
    count: Annotated[int, operator.add]


async def miscount(state: Counted) -> dict[str, Any]:
    """Writes what its reducer cannot take when it is asked to."""
    return {"messages": [AIMessage("done")], "count": "x" if state["messages"][-1].text == "break" else 1}


def miscounting() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(Counted)
    builder.add_node("miscount", miscount)
    builder.add_edge(START, "miscount")
    return builder


async def remember(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    assert runtime.store
    said = state["messages"][-1].text
    if said:
        await runtime.store.aput(("notes",), "last", {"text": said})
    kept = await runtime.store.asearch(())
    listed = ", ".join(f"{'/'.join(item.namespace)}:{item.key}" for item in kept)
    return {"messages": [AIMessage(f"kept {listed}")]}


def remembering() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(MessagesState)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    return builder


def add_all(messages: Any, writes: Any) -> Any:
    return functools.reduce(add_messages, writes, messages)


class Checked(BaseModel):
    """Is nothing without its messages, which are kept by their changes."""

    messages: Annotated[list[AnyMessage], DeltaChannel(add_all)] = Field(min_length=1)
    turns: int = 0


async def count_turns(state: Checked) -> dict[str, Any]:
    return {"turns": state.turns + 1}


def checked() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(Checked)
    builder.add_node("first", count_turns)
    builder.add_node("second", count_turns)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    return builder


class Measured(MessagesState):
    text: str
    share: float


async def measure(_: Measured) -> dict[str, Any]:
    """Scalars that JSON in PostgreSQL does not take, as parsers of documents and statistics give them."""
    return {"text": "a\0b", "share": float("nan"), "messages": [AIMessage("measured")]}


def measuring() -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(Measured)
    builder.add_node("measure", measure)
    builder.add_edge(START, "measure")
    return builder
