"""Chat models for measuring: they answer at once, do as they are told, and remember what they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

from app.ports import ModelDescription

MODEL_NAME = "bench"
TOOL_NAME = "look_up"
# How both middlewares mark their summary calls, so that no token of them is streamed.
_SUMMARY_TAG = "nostream"
_SUMMARY = """\
## Intent
Work through the {number}. part of the material and report what stands out.
## State of the work
Done: the look-ups so far, {number} batches of them, all without an error.
In progress: comparing the figures of the regions; nothing contradicts the plan up to now.
Next: look up the following entry, then the one after it, until none is left.
## Artifacts
reports/part-{number}.md holds the notes; the totals are to be written to reports/totals.md at the end.
## Open questions
None that would stop the work."""


class BenchModel(BaseChatModel):
    """Calls one tool ``steps`` times, then ends. Writes the same kind of summary whenever it is asked for one.

    ``marks`` is a pattern; what it finds in the prompts of summary calls is kept in ``read``. Sizes of requests
    are characters of their messages."""

    steps: int = 0
    marks: str = ""

    _made: int = PrivateAttr(default=0)
    _request_chars: list[int] = PrivateAttr(default_factory=list)
    _summary_chars: list[int] = PrivateAttr(default_factory=list)
    _read: set[str] = PrivateAttr(default_factory=set)

    @property
    def summary_chars(self) -> list[int]:
        """Sizes of the summary calls."""
        return self._summary_chars

    @property
    def request_chars(self) -> list[int]:
        """Sizes of all other calls."""
        return self._request_chars

    @property
    def read(self) -> set[str]:
        return self._read

    @property
    def _llm_type(self) -> str:
        return "threadkeep-bench"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._answer(messages, run_manager.tags if run_manager else ())

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._answer(messages, run_manager.tags if run_manager else ())

    def _answer(self, messages: Sequence[BaseMessage], tags: Sequence[str]) -> ChatResult:
        size = sum(len(message.text) for message in messages)
        if _SUMMARY_TAG in tags:
            self._summary_chars.append(size)
            message = self._summary(messages)
        else:
            self._request_chars.append(size)
            message = self._step()
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _summary(self, messages: Sequence[BaseMessage]) -> AIMessage:
        if self.marks:
            self._read.update(mark for message in messages for mark in re.findall(self.marks, message.text))
        return AIMessage(_SUMMARY.format(number=len(self._summary_chars)))

    def _step(self) -> AIMessage:
        if self._made >= self.steps:
            return AIMessage("All of it is looked up.")
        self._made += 1
        call = ToolCall(name=TOOL_NAME, args={"entry": self._made}, id=f"call-{self._made}")
        return AIMessage(f"Entry {self._made}.", tool_calls=[call])


class OneModel:
    """The configured models, where there is only one. ``window`` is tokens, None when nobody knows it."""

    def __init__(self, model: BaseChatModel, window: int | None = None) -> None:
        self._model = model
        self._window = window

    @property
    def default(self) -> str:
        return MODEL_NAME

    @property
    def names(self) -> tuple[str, ...]:
        return (MODEL_NAME,)

    def describe(self) -> Sequence[ModelDescription]:
        return ()

    def get(self, name: str) -> BaseChatModel:
        return self._model

    def for_summary(self, name: str) -> BaseChatModel:
        return self._model

    def window(self, name: str) -> int | None:
        return self._window

    def max_tokens(self, name: str) -> int:
        return 0
