"""The middleware chain of an agent, outermost first."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from app.agent.middleware.delegations import DelegationsMiddleware
from app.agent.middleware.durable_context import DurableContextMiddleware
from app.agent.middleware.dynamic_context import DynamicContextMiddleware
from app.agent.middleware.overflow import OverflowMiddleware
from app.agent.middleware.skill_activation import SkillActivationMiddleware
from app.agent.middleware.summarization import SummarizationMiddleware
from app.agent.middleware.valid_request import ValidRequestMiddleware
from app.agent.parts import AgentParts
from app.ports import AgentSpec


def chain(parts: AgentParts, agent: AgentSpec, model_name: str) -> list[AgentMiddleware[Any, Any]]:
    """Hooks run from the first to the last; around a model call the first is outermost.

    The recovery from an overflow is outermost, so that the retried call gets the durable block of the compacted state.
    The ledger of delegations stands inside it, where a reply is nothing but what the model has just said.
    """
    dynamic = [DynamicContextMiddleware(parts.dynamic_context)] if parts.dynamic_context else []
    return [
        OverflowMiddleware(parts.compactor, agent, model_name),
        *dynamic,
        *([SkillActivationMiddleware(agent.skills)] if agent.skills else []),
        *([DelegationsMiddleware()] if agent.kind == "lead" else []),
        DurableContextMiddleware(parts.capture),
        SummarizationMiddleware(parts.compactor, agent, model_name),
        ValidRequestMiddleware(),
    ]
