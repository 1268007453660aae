"""The middleware chain of an agent, outermost first."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from app.agent.middleware.durable_context import DurableContextMiddleware
from app.agent.middleware.overflow import OverflowMiddleware
from app.agent.middleware.summarization import SummarizationMiddleware
from app.agent.middleware.valid_request import ValidRequestMiddleware
from app.ports import AgentSpec, Compactor


def chain(compactor: Compactor, agent: AgentSpec, model_name: str) -> list[AgentMiddleware[Any, Any]]:
    """Before the model: compaction. Around the call: overflow recovery, then the durable block, then validity."""
    return [
        SummarizationMiddleware(compactor, agent, model_name),
        OverflowMiddleware(compactor, agent, model_name),
        DurableContextMiddleware(),
        ValidRequestMiddleware(),
    ]
