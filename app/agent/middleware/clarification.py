"""Stops the run at a question to the person, and goes on with the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.types import interrupt

from app.agent.state import FullState
from app.agent.tools.clarification import REQUEST, unanswered, with_answer


class ClarificationMiddleware(AgentMiddleware[FullState, Any]):
    """Asks before the model is called again, when all tools of the step have ended and their results are in the state:
    calls made beside the question lose nothing, several questions are put one after the other, and who writes a message
    instead of answering finds a complete history.

    Outermost around the model, so that everything inside sees the answer and nothing is done twice: what stands before
    an interrupt is repeated when the run is resumed.
    """

    state_schema = FullState

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        waiting = unanswered(request.messages)
        if not waiting:
            return await handler(request)
        answered = [with_answer(question, interrupt(question.artifact[REQUEST])) for question in waiting]
        by_id = {message.id: message for message in answered}
        messages: Any = [by_id.get(message.id, message) for message in request.messages]
        state: Any = {**request.state, "messages": messages}
        response = await handler(request.override(messages=messages, state=state))
        # First in one write with the reply: the answers take the places of the questions, the reply comes last.
        response.result = [*answered, *response.result]
        return response
