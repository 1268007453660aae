"""What a thread's model calls used: noted as each ends, and told by model and by caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any
from uuid import UUID

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from app.persistence.outage import through_outage
from app.persistence.token_usage import CALLERS, Caller, ModelCall, TokenUsageStore, UsageLine
from app.ports import MODEL_KEY
from app.services.compaction.context import ContextService

_AGENTS: tuple[Caller, ...] = ("lead_agent", "subagent")


class UsageRecorder(UsageMetadataCallbackHandler):
    """A callback of every model call of a run: each is stored when it ends, so that no crash afterwards, no compaction
    and no second attempt of the run changes what was used. An async context manager; leaving it waits for the last one.
    """

    run_inline = True

    def __init__(self, store: TokenUsageStore, thread_id: str, run_id: str) -> None:
        super().__init__()
        self._store = store
        self._thread_id = thread_id
        self._run_id = run_id
        self._metadata: dict[UUID, Mapping[str, Any]] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> UsageRecorder:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Calls of other threads are handed over by the loop.
        await asyncio.sleep(0)
        while self._writing:
            await asyncio.wait(self._writing)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._metadata[run_id] = metadata or {}

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._metadata.pop(run_id, None)

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        call_id: UUID = kwargs["run_id"]
        metadata = self._metadata.pop(call_id, {})
        message = _reply(response)
        if message is None or self._loop is None:
            return
        used: Mapping[str, Any] = message.usage_metadata or {}
        call = ModelCall(
            call_id=str(call_id),
            thread_id=self._thread_id,
            run_id=self._run_id,
            caller=caller_of(metadata),
            model_name=_model_of(metadata, message),
            message_id=message.id,
            input_tokens=used.get("input_tokens", 0),
            output_tokens=used.get("output_tokens", 0),
            total_tokens=used.get("total_tokens", 0),
        )
        # A graph of the user may call models in threads of its own.
        self._loop.call_soon_threadsafe(self._write, call)

    def _write(self, call: ModelCall) -> None:
        task = asyncio.ensure_future(through_outage(lambda: self._store.add([call])))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)


class UsageService:
    """Tells what a thread used so far, whatever of it was compacted, and how full its context is now."""

    def __init__(self, store: TokenUsageStore, contexts: ContextService) -> None:
        self._store = store
        self._contexts = contexts

    async def report(self, owner: str, thread_id: str) -> dict[str, Any]:
        """Raises NotFound. Tokens are what providers reported; those of the context are estimated."""
        context = await self._contexts.report(owner, thread_id)
        lines = await self._store.of_thread(thread_id)
        runs = await self._store.runs_of(thread_id)
        total = _sum(lines)
        return {
            "thread_id": thread_id,
            **total,
            "total_input_tokens": total["input_tokens"],
            "total_output_tokens": total["output_tokens"],
            "total_runs": runs.get("", 0),
            "by_model": {
                name: {**sums, "tokens": sums["total_tokens"], "runs": runs.get(name, 0)}
                for name, sums in _by_model(lines).items()
            },
            "by_caller": _by_caller(lines),
            "context_usage": {
                "token_count": context["tokens"]["total"],
                "max_context_tokens": context["window"],
                "percentage": context["percent"],
            },
        }


def caller_of(metadata: Mapping[str, Any]) -> Caller:
    """Who makes the call that has this metadata."""
    if metadata.get("caller") == "title":
        return "title"
    return "subagent" if "subagent_type" in metadata else "lead_agent"


def _model_of(metadata: Mapping[str, Any], message: AIMessage) -> str:
    """The name in the configuration; of a model that a graph of the user brought, the provider's."""
    named = (
        metadata.get(MODEL_KEY)
        or message.response_metadata.get("model_name")
        or metadata.get("ls_model_name")
    )
    return str(named or "unknown")


def _reply(response: LLMResult) -> AIMessage | None:
    for generations in response.generations:
        for generation in generations:
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
                return generation.message
    return None


def _by_model(lines: Sequence[UsageLine]) -> dict[str, dict[str, int]]:
    names = dict.fromkeys(line.model_name for line in lines)
    return {name: _sum([line for line in lines if line.model_name == name]) for name in names}


def _by_caller(lines: Sequence[UsageLine]) -> dict[str, int]:
    """Each caller's tokens; ``middleware`` is all that is neither agent nor subagent."""
    tokens: dict[str, int] = {
        caller: sum(line.total_tokens for line in lines if line.caller == caller) for caller in CALLERS
    }
    return {**tokens, "middleware": sum(tokens[caller] for caller in CALLERS if caller not in _AGENTS)}


def _sum(lines: Sequence[UsageLine]) -> dict[str, int]:
    names = ("calls", "input_tokens", "output_tokens", "total_tokens")
    rows = [asdict(line) for line in lines]
    return {name: sum(row[name] for row in rows) for name in names}
