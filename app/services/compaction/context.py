"""What the model would be sent now, in figures (spec: HTTP contract, ``GET /threads/{t}/context``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.agent.context import context_of
from app.agent.summary_message import marker_in
from app.compaction.trigger import held_below, message_count, next_trigger_tokens, resolve
from app.compaction.types import Context, TokenBreakdown
from app.errors import NotFound
from app.persistence.breakers import BreakerStore
from app.persistence.threads import ThreadStore
from app.ports import ChatModels, Graphs
from app.services.compaction.compactor import ThreadCompactor


class ContextService:
    """Measures threads with the counter that the trigger uses (rule B1)."""

    def __init__(
        self,
        threads: ThreadStore,
        breakers: BreakerStore,
        graphs: Graphs,
        models: ChatModels,
        compactor: ThreadCompactor,
    ) -> None:
        self._threads = threads
        self._breakers = breakers
        self._graphs = graphs
        self._models = models
        self._compactor = compactor

    def warnings(self, model_name: str) -> tuple[str, ...]:
        """What of the trigger does not work with this model's context window, in sentences (rule A4)."""
        window, reserved = self._compactor.window(model_name), self._compactor.reserved(model_name)
        return resolve(self._compactor.policy, window, reserved).warnings

    async def report(self, owner: str, thread_id: str) -> dict[str, Any]:
        """Raises NotFound, and Conflict for a graph without messages. Tokens are estimates; ``percent`` is of the
        window, or of the next trigger where no window is known, None where neither is."""
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        agent = self._graphs.spec(thread.graph_name)
        model_name = agent.model or self._models.default
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state({"configurable": {"thread_id": thread_id}})
        self._graphs.check_compactable(thread.graph_name, head.values)
        window, reserved = self._compactor.window(model_name), self._compactor.reserved(model_name)
        context = context_of(head.values, agent, window, reserved)
        return {
            **self._measured(context, model_name),
            **await self._history(thread_id, marker_in(head.values)),
            "model_name": model_name,
        }

    def _measured(self, context: Context, model_name: str) -> dict[str, Any]:
        tokens = self._compactor.counter(model_name).breakdown(context)
        resolved = resolve(self._compactor.policy, context.window, context.reserved_output)
        next_trigger = next_trigger_tokens(resolved)
        if next_trigger is not None:
            next_trigger = max(next_trigger, held_below(context, tokens) or 0)
        return {
            "tokens": asdict(tokens),
            "message_count": message_count(context),
            "window": context.window,
            "trigger": [
                {"type": clause.size.kind, "value": clause.size.value, "tokens": clause.tokens}
                for clause in resolved.clauses
            ],
            "percent": _percent(tokens, context.window, next_trigger),
            "next_trigger_tokens": next_trigger,
        }

    async def _history(self, thread_id: str, marker: Any) -> dict[str, Any]:
        breaker = await self._breakers.of_thread(thread_id)
        return {
            "last_compaction_id": marker["compaction_id"] if marker else None,
            "breaker": {
                "open": breaker.waiting,
                "failures": breaker.failures,
                "retry_at": breaker.retry_at,
            },
            "last_error": breaker.last_error,
        }


def _percent(tokens: TokenBreakdown, window: int | None, next_trigger: int | None) -> float | None:
    if window:
        return round(100 * (tokens.total + tokens.reserved) / window, 1)
    return round(100 * tokens.total / next_trigger, 1) if next_trigger else None
