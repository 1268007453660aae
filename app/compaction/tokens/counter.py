"""The one token counter of the project (rules B1-B4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from app.compaction.types import Context, TokenBreakdown


class TokenCounter:
    """Estimates tokens of text, messages and whole requests."""

    def __init__(self, chars_per_token: float = 4.0, custom: Callable[..., Any] | None = None) -> None:
        self._chars_per_token = chars_per_token
        self._custom = custom

    def text(self, text: str) -> int:
        """Tokens of a text, by script (rule B3)."""
        raise NotImplementedError

    def message(self, message: BaseMessage) -> int:
        """Tokens of one message: content, images, tool calls, name, overhead (rule B3)."""
        raise NotImplementedError

    def messages(self, messages: Sequence[BaseMessage]) -> int:
        """Tokens of all messages. The cost of the call is that of the messages it has not seen (rule B4)."""
        raise NotImplementedError

    def summary(self, text: str | None) -> int:
        """Tokens of the live summary and of the one message it counts as (rule B2); 0 without a summary."""
        raise NotImplementedError

    def estimate(self, context: Context) -> TokenBreakdown:
        """The whole request by part, without the provider's word (rule B1)."""
        raise NotImplementedError

    def breakdown(self, context: Context) -> TokenBreakdown:
        """The whole request by part, scaled by provider usage where that is valid (rules B1, B3)."""
        raise NotImplementedError


def counter_for(model: BaseChatModel | None, custom: str | None = None) -> TokenCounter:
    """The counter for a model; ``custom`` is ``package.module:function`` (list of messages → int).

    Raises ConfigError when ``custom`` cannot be loaded."""
    raise NotImplementedError
