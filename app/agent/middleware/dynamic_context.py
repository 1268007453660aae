"""Tells the model the date, and once per thread what is known of the person (rules H1, H2)."""

from __future__ import annotations

import logging
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langgraph.runtime import Runtime

from app.agent.dynamic import DynamicContext, outlook, smallest_write, with_reminder
from app.agent.state import FullState

log = logging.getLogger(__name__)


class DynamicContextMiddleware(AgentMiddleware[FullState, Any]):
    """Once per run, before anything else. On the same day there is nothing to do, after a compaction neither: the
    reminder of today is never removed (rules C4, C5)."""

    state_schema = FullState

    def __init__(self, context: DynamicContext) -> None:
        super().__init__()
        self._context = context

    async def abefore_agent(self, state: FullState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        before, today = state.get("messages") or [], self._context.today()
        seen = outlook(before, today)
        memory = await self._memory(runtime) if seen.wants_memory else None
        written = smallest_write(before, with_reminder(seen, today, memory))
        return {"messages": written} if written else None

    async def _memory(self, runtime: Runtime[Any]) -> str | None:
        info = runtime.execution_info
        if self._context.recall is None or info is None or not info.thread_id:
            return None
        try:
            return await self._context.recall(info.thread_id)
        except Exception:  # what is remembered is a help; without it the question is answered all the same
            log.exception("what is known of the person of thread %s cannot be read", info.thread_id)
            return None
