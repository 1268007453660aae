"""The middleware chain of an agent, outermost first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware

from app.agent.middleware.clarification import ClarificationMiddleware
from app.agent.middleware.delegations import DelegationsMiddleware
from app.agent.middleware.durable_context import DurableContextMiddleware
from app.agent.middleware.dynamic_context import DynamicContextMiddleware
from app.agent.middleware.mcp import McpMiddleware
from app.agent.middleware.overflow import OverflowMiddleware
from app.agent.middleware.skill_activation import SkillActivationMiddleware
from app.agent.middleware.summarization import SummarizationMiddleware
from app.agent.middleware.title import TitleMiddleware
from app.agent.middleware.todos import TodosMiddleware
from app.agent.middleware.tool_output import ToolOutputMiddleware
from app.agent.middleware.valid_request import ValidRequestMiddleware
from app.agent.parts import AgentParts
from app.ports import AgentSpec


def chain(parts: AgentParts, agent: AgentSpec, model_name: str) -> list[AgentMiddleware[Any, Any]]:
    """Hooks run from the first to the last; around a model call the first is outermost.

    The recovery from an overflow is around the others, so that the retried call gets the durable block of the compacted
    state. Further out are only an answer, which it must see, and the title, which it does not concern.
    The ledger of delegations stands inside it, where a reply is nothing but what the model has just said.
    """
    dynamic = parts.dynamic_context
    if dynamic and agent.kind == "subagent":
        # It is told the date; what is known of the person stays with the agent that the person talks to.
        dynamic = replace(dynamic, recall=None)
    return [
        *_with_the_person(parts, agent, model_name),
        OverflowMiddleware(parts.compactor, agent, model_name),
        *([DynamicContextMiddleware(dynamic)] if dynamic else []),
        *([SkillActivationMiddleware(agent.skills)] if agent.skills else []),
        *([DelegationsMiddleware()] if agent.kind == "lead" else []),
        DurableContextMiddleware(parts.capture),
        SummarizationMiddleware(parts.compactor, agent, model_name),
        TodosMiddleware(),
        *([ToolOutputMiddleware(parts.tool_output, parts.tools)] if parts.tool_output else []),
        *([McpMiddleware(parts.mcp, agent.mcp)] if parts.mcp and agent.mcp else []),
        ValidRequestMiddleware(),
    ]


def _with_the_person(parts: AgentParts, agent: AgentSpec, model_name: str) -> list[AgentMiddleware[Any, Any]]:
    """What only an agent has that people talk to."""
    if agent.kind != "lead":
        return []
    titles = [TitleMiddleware(parts.titles, model_name)] if parts.titles else []
    return [ClarificationMiddleware(), *titles]
