"""Spans for what a graph does: its model calls and its tools, those of subagents among them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from app.persistence.runs import Run
from app.telemetry import is_traced, log_scope, mark_failed, span

TRACE_KEY = "trace"
"""In the kwargs of a run: the trace headers of the request that started it."""
_TRACER = trace.get_tracer("threadkeep")


@contextmanager
def run_scope(run: Run) -> Iterator[None]:
    """What is done inside belongs to the run, in the log and in the trace of the request that started it."""
    attributes = {
        "threadkeep.thread_id": run.thread_id,
        "threadkeep.run_id": run.run_id,
        "threadkeep.attempt": run.attempt,
        "threadkeep.graph": run.kwargs["graph_name"],
        "gen_ai.request.model": run.kwargs["model_name"],
    }
    with (
        log_scope(thread_id=run.thread_id, run_id=run.run_id),
        span("run", attributes, kind=SpanKind.CONSUMER, parent=run.kwargs.get(TRACE_KEY)),
    ):
        yield


@asynccontextmanager
async def graph_spans() -> AsyncIterator[list[AsyncCallbackHandler]]:
    """The callbacks that make spans of what a graph does; none where nobody records them."""
    if not is_traced():
        yield []
        return
    callbacks = SpanCallbacks()
    try:
        yield [callbacks]
    finally:
        callbacks.close()


class SpanCallbacks(AsyncCallbackHandler):
    """Opens a span at each start and closes it at the end. For one run; names and figures, no text.

    LangChain calls this at the start and end of a call, not around it, so the spans cannot be current ones: each is put
    under the call that caused it, or under the run.
    """

    run_inline = True

    def __init__(self) -> None:
        self._run = trace.get_current_span()
        self._open: dict[UUID, Span] = {}
        self._parents: dict[UUID, UUID | None] = {}

    async def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        self._parents[run_id] = parent_run_id

    async def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: list[str] | None = None,
        **_: Any,
    ) -> None:
        model = str((metadata or {}).get("ls_model_name", ""))
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        if "middleware:summarize" in (tags or ()):
            attributes["threadkeep.caller"] = "compaction"
        self._start(f"chat {model}".strip(), attributes, SpanKind.CLIENT, run_id, parent_run_id)

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        span = self._open.get(run_id)
        message = _message(response)
        if span and message and message.usage_metadata:
            span.set_attribute("gen_ai.usage.input_tokens", message.usage_metadata["input_tokens"])
            span.set_attribute("gen_ai.usage.output_tokens", message.usage_metadata["output_tokens"])
        self._end(run_id)

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, error)

    async def on_tool_start(
        self,
        serialized: Mapping[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        name = str((serialized or {}).get("name", "tool"))
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        self._start(f"tool {name}", attributes, SpanKind.INTERNAL, run_id, parent_run_id)

    async def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id)

    async def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, error)

    def close(self) -> None:
        """The run is over: what was cut off ends with it."""
        for run_id in list(self._open):
            self._end(run_id)

    def _start(
        self,
        name: str,
        attributes: Mapping[str, str],
        kind: SpanKind,
        run_id: UUID,
        parent_run_id: UUID | None,
    ) -> None:
        self._parents[run_id] = parent_run_id
        context = trace.set_span_in_context(self._above(parent_run_id))
        self._open[run_id] = _TRACER.start_span(name, context, kind, attributes)

    def _above(self, run_id: UUID | None) -> Span:
        while run_id is not None:
            if run_id in self._open:
                return self._open[run_id]
            run_id = self._parents.get(run_id)
        return self._run

    def _end(self, run_id: UUID, error: BaseException | None = None) -> None:
        span = self._open.pop(run_id, None)
        if span is None:
            return
        if error is not None:
            mark_failed(span, error)
        span.end()


def _message(response: LLMResult) -> AIMessage | None:
    for generations in response.generations:
        for generation in generations:
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
                return generation.message
    return None
