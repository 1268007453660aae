"""Agents and graphs that use the compaction of the service."""

from __future__ import annotations

import os
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

from app.agent import compaction_middleware, compaction_node


@tool
def weather(place: str) -> str:
    """What the weather is like."""
    return f"Sunny in {place}."


def _model() -> ChatOpenAI:
    return ChatOpenAI(model="theirs", base_url=os.environ["PROVIDER_URL"], api_key="none", max_retries=0)


def agent() -> Any:
    return create_agent(
        _model(), [weather], system_prompt="You like gardens.", middleware=compaction_middleware()
    )


def graph() -> StateGraph[Any, Any, Any, Any]:
    model = _model()

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("compaction", compaction_node)
    builder.add_node("call", call)
    builder.add_edge(START, "compaction")
    builder.add_edge("compaction", "call")
    return builder
