"""The demo model as a LangChain chat model."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from app.chat_models.demo.chunks import chunks_of, tokens_of
from app.chat_models.demo.memory import asks_for_facts, facts_in
from app.chat_models.demo.reply import Turn, answer
from app.chat_models.demo.summary import asks_for_summary, extractive_summary
from app.compaction.tokens import TokenCounter
from app.compaction.types import Context

logger = logging.getLogger(__name__)

MAX_SUMMARY_TOKENS = 900


class DemoChatModel(BaseChatModel):
    """A chat model without a language model: offline, deterministic, honest about it in every reply.

    It says what it sees of the conversation, streams token by token, reports usage by the project's own
    counter and writes a real extractive summary when it gets our summary prompt. A person drives it by
    lines of a message:

    - ``/tool NAME {"key": "value"}`` calls a tool. Several lines are parallel calls; after a line ``/then``
      come the calls of the next round, made when the results of this one are there.
    - ``/slow N`` streams N tokens (at most 2,000) at 50 ms each, to try cancelling and resuming by hand.
    - ``/think TEXT`` puts a reasoning block before the answer; ``/error TEXT`` makes the call fail.

    Programs drive it by ``script``: messages, texts and exceptions, consumed in order by all calls but
    summaries; ``summary_script`` does the same for those. Calls for facts about the person consume neither.
    Copies and bound variants consume the same script; when it is used up the model answers on its own again.

    ``token_delay_s`` and ``summary_delay_s`` are seconds: a pause per token, and before a summary.
    ``max_tokens`` cuts a reply. With ``enforce_window`` a request above ``context_window`` tokens fails as
    a provider's would.
    """

    model: str = "demo"
    context_window: int = 128_000
    max_tokens: int | None = None
    token_delay_s: float = 0.006
    summary_delay_s: float = 0.0
    enforce_window: bool = False
    script: Sequence[Any] = Field(default=(), exclude=True)
    summary_script: Sequence[Any] = Field(default=(), exclude=True)

    _script: deque[Any] = PrivateAttr(default_factory=deque)
    _summary_script: deque[Any] = PrivateAttr(default_factory=deque)
    _warnings: deque[str] = PrivateAttr(
        default_factory=lambda: deque(["the demo model is in use: no language model is behind its answers"])
    )
    _counter: TokenCounter = PrivateAttr(default_factory=TokenCounter)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._script.extend(self.script)
        self._summary_script.extend(self.summary_script)

    @property
    def _llm_type(self) -> str:
        return "threadkeep-demo"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def _resolve_model_profile(self) -> ModelProfile:
        return {"max_input_tokens": self.context_window, "tool_calling": True, "text_inputs": True}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Make ``tools`` callable by ``/tool``. ``tool_choice`` has no effect: the person chooses."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self._turn(messages, kwargs.get("tools") or ()).message
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await self._pause_before(messages)
        return self._generate(messages, **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self._pause_before(messages)
        turn = self._turn(messages, kwargs.get("tools") or ())
        delay = self.token_delay_s if turn.delay_s is None else turn.delay_s
        for chunk in chunks_of(turn.message):
            yield ChatGenerationChunk(message=chunk)
            # Also without a delay: the place where a cancelled call ends.
            await asyncio.sleep(delay)

    async def _pause_before(self, messages: Sequence[BaseMessage]) -> None:
        await asyncio.sleep(self.summary_delay_s if asks_for_summary(messages) else 0)

    def _turn(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> Turn:
        if self._warnings:
            logger.warning(self._warnings.popleft())
        used = self._counter.estimate(Context(messages=messages, tools=tools)).total
        if self.enforce_window and used > self.context_window:
            raise ContextOverflowError(
                f"the request has {used} tokens, the context window of the demo model {self.context_window}"
            )
        turn = self._scripted(messages) or answer(messages, _names(tools))
        return Turn(self._finished(turn.message, used), turn.delay_s)

    def _scripted(self, messages: Sequence[BaseMessage]) -> Turn | None:
        if asks_for_facts(messages):
            return Turn(AIMessage(facts_in(messages[0].text)), delay_s=0)
        summary = asks_for_summary(messages)
        script = self._summary_script if summary else self._script
        if script:
            return Turn(_as_message(script.popleft()))
        if not summary:
            return None
        limit = min(MAX_SUMMARY_TOKENS, self.max_tokens or MAX_SUMMARY_TOKENS)
        return Turn(AIMessage(extractive_summary(messages[-1].text, limit)), delay_s=0)

    def _finished(self, message: AIMessage, input_tokens: int) -> AIMessage:
        """The message with what a provider adds: where it stopped, which model it was, what it used."""
        content, reason = message.content, "tool_calls" if message.tool_calls else "stop"
        if self.max_tokens is not None and isinstance(content, str):
            tokens = tokens_of(content)
            if len(tokens) > self.max_tokens:
                content, reason = "".join(tokens[: self.max_tokens]), "length"
        finished = message.model_copy(update={"content": content})
        output_tokens = self._counter.message(finished)
        usage = UsageMetadata(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
        )
        metadata = {"model_name": self.model, "finish_reason": reason, **message.response_metadata}
        return finished.model_copy(
            update={"response_metadata": metadata, "usage_metadata": message.usage_metadata or usage}
        )


def _as_message(item: Any) -> AIMessage:
    """The next item of a script as a message. Raises it when it is an exception."""
    match item:
        case AIMessage():
            return item
        case BaseException():
            raise item
        case _:
            return AIMessage(str(item))


def _names(tools: Sequence[dict[str, Any]]) -> list[str]:
    return [str((tool.get("function") or tool).get("name")) for tool in tools]
