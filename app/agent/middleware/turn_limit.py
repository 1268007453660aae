"""The number of model calls that a subagent may make for one task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import BaseMessage
from langgraph.types import Command

from app.compaction.roles import is_ai
from app.errors import TurnLimitReached

_LONGEST_LAST_WORDS = 2000


class TurnState(AgentState[Any]):
    turns: NotRequired[Annotated[int, PrivateStateAttr]]


class TurnLimitMiddleware(AgentMiddleware[TurnState, Any]):
    """Counts in the state, so that a subagent that another worker goes on with has no more turns than before.

    Raises TurnLimitReached in the place of a call too many.
    """

    state_schema = TurnState

    def __init__(self, max_turns: int) -> None:
        super().__init__()
        self._max_turns = max_turns

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        state: Any = request.state
        turns = state.get("turns", 0)
        if turns >= self._max_turns:
            words = _last_words(request.messages)
            said = f" It said last: {words}" if words else ""
            raise TurnLimitReached(f"it has no result after {turns} turns, which is its limit.{said}")
        response = await handler(request)
        return ExtendedModelResponse(response, Command(update={"turns": turns + 1}))


def _last_words(messages: Sequence[BaseMessage]) -> str:
    said = (message.text.strip() for message in reversed(messages) if is_ai(message))
    return next((text for text in said if text), "")[:_LONGEST_LAST_WORDS]
