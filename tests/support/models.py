"""A chat model that says what a test wrote down for it, and remembers what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

GOOD_SUMMARY = "## Intent\nThe user wants the quarterly report.\n## State of the work\nDone: the draft."

Step = str | AIMessage | BaseException | Callable[[str], Any]


class Never:
    """A step that never comes back; ``entered`` is set when the model was called."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.cancelled = False

    async def wait(self) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class StatusError(Exception):
    """What an SDK raises for an HTTP status, with the response's headers."""

    def __init__(self, status_code: int, headers: dict[str, str] | None = None, **fields: Any) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": headers or {}, "status_code": status_code})()
        self.__dict__.update(fields)


class ScriptedModel(BaseChatModel):
    """Answers call by call from ``steps``; the last one is repeated.

    A step is a text, a message, an exception to raise, ``Never``, or a function of the prompt's text.
    """

    _steps: list[Any] = PrivateAttr(default_factory=list)
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tags: list[list[str]] = PrivateAttr(default_factory=list)
    _handlers: list[list[Any]] = PrivateAttr(default_factory=list)

    @classmethod
    def saying(cls, *steps: Any) -> ScriptedModel:
        model = cls()
        model._steps = list(steps) or [GOOD_SUMMARY]
        return model

    @property
    def prompts(self) -> list[str]:
        """The text of each request, all of its messages joined."""
        return ["\n".join(str(message.text) for message in request) for request in self._requests]

    @property
    def requests(self) -> Sequence[Sequence[BaseMessage]]:
        return self._requests

    @property
    def tags_seen(self) -> Sequence[Sequence[str]]:
        return self._tags

    @property
    def handlers_seen(self) -> Sequence[Sequence[Any]]:
        return self._handlers

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("asynchronous only")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        step = self._steps[min(len(self._requests), len(self._steps) - 1)]
        self._requests.append(messages)
        self._tags.append(list(run_manager.tags) if run_manager else [])
        self._handlers.append(list(run_manager.handlers) if run_manager else [])
        if callable(step):
            step = step(self.prompts[-1])
        if isinstance(step, Never):
            await step.wait()
        if isinstance(step, BaseException):
            raise step
        message = step if isinstance(step, AIMessage) else AIMessage(content=step)
        return ChatResult(generations=[ChatGeneration(message=message)])


def all_text(models: Iterable[ScriptedModel]) -> str:
    """Everything that any of the models was ever sent."""
    return "\n".join(prompt for model in models for prompt in model.prompts)
