"""Shows the model the skill that a person named at the beginning of a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.types import Command

from app.agent.state import FullState
from app.compaction.roles import HIDDEN_FLAG, is_ai
from app.ports import Activation, ActiveSkills


class SkillActivationMiddleware(AgentMiddleware[FullState, Any]):
    """The skill's text is in the requests of the turn and never in the state, which keeps a reference (rule G2)."""

    state_schema = FullState

    def __init__(self, skills: ActiveSkills) -> None:
        super().__init__()
        self._skills = skills

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        activation = self._skills.activated(request.messages)
        if activation is None:
            return await handler(request)
        shown: Any = _with_skill(request.messages, activation)
        response = await handler(request.override(messages=shown))
        if any(is_ai(message) for message in request.messages[activation.index :]):
            return response
        return ExtendedModelResponse(response, Command(update={"skill_context": [activation.reference]}))


def _with_skill(messages: Sequence[BaseMessage], activation: Activation) -> list[BaseMessage]:
    """Before the message that asks for it: what stands in front of a growing turn can stay in the provider's cache."""
    skill = HumanMessage(content=activation.text, additional_kwargs={HIDDEN_FLAG: True})
    return [*messages[: activation.index], skill, *messages[activation.index :]]
