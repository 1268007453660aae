"""Gives a thread its title, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langgraph.types import Command

from app.agent.state import FullState
from app.agent.title import Titles, opening

# How long a finished reply waits for its title.
PATIENCE_SECONDS = 2.0


class TitleMiddleware(AgentMiddleware[FullState, Any]):
    """Has the title written while the model answers for the first time, and puts both into the state in one write: it
    costs hardly any time, and no step of the graph. Who gave the thread a title before keeps it."""

    state_schema = FullState

    def __init__(self, titles: Titles, model_name: str) -> None:
        super().__init__()
        self._titles = titles
        self._model_name = model_name

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        text = opening(request.messages)
        if not text or request.state.get("title"):
            return await handler(request)
        writing = asyncio.create_task(self._titles.from_model(text, self._model_name), name="title")
        try:
            response = await handler(request)
            await asyncio.wait([writing], timeout=PATIENCE_SECONDS)
        finally:
            written = await _result_or_none(writing)
        title = written or self._titles.from_text(text)
        return ExtendedModelResponse(response, Command(update={"title": title})) if title else response


async def _result_or_none(task: asyncio.Task[str | None]) -> str | None:
    """The result of a task that is done; one that is not is ended."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    return None if task.cancelled() else task.result()
