"""The one token counter: texts, messages, whole requests (rules B1-B4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from app.compaction.tokens.calibration import newest_report, scale_of
from app.compaction.tokens.cost import MESSAGE_OVERHEAD, as_json, costed_parts, message_tokens
from app.compaction.tokens.custom import CustomCount, Guarded, load_counter
from app.compaction.tokens.memo import Memo
from app.compaction.tokens.script import ANTHROPIC_CHARS_PER_TOKEN, CHARS_PER_TOKEN, ScriptEstimate
from app.compaction.types import Context, TokenBreakdown


class TokenCounter:
    """Counts texts, messages and requests for one kind of model.

    Keep one per model and share it: it remembers what it has counted (rule B4). Messages count as values, one
    that is changed in place keeps its first count. ``custom`` takes a list of messages and answers with their
    tokens; what it cannot count is estimated.
    """

    def __init__(self, chars_per_token: float = CHARS_PER_TOKEN, custom: CustomCount | None = None) -> None:
        self._estimate = ScriptEstimate(chars_per_token)
        self._custom = Guarded(custom) if custom else None
        self._messages = Memo(costed_parts, self._message_cost)
        self._tools = Memo(_tool_parts, self._tool_cost)

    def text(self, text: str) -> int:
        """Tokens of a text, by script (rule B3)."""
        custom = self._custom(HumanMessage(content=text)) if self._custom else None
        return self._estimate(text) if custom is None else custom

    def message(self, message: BaseMessage) -> int:
        """Tokens of one message: content, images, tool calls, name, overhead (rule B3)."""
        return self._messages.of(message)

    def messages(self, messages: Sequence[BaseMessage]) -> int:
        """Tokens of all messages. The cost of the call is that of the messages it has not seen (rule B4)."""
        return self._messages.total(messages)

    def summary(self, text: str | None) -> int:
        """Tokens of the live summary and of the one message it counts as (rule B2); 0 without a summary."""
        return self.text(text) + MESSAGE_OVERHEAD if text else 0

    def estimate(self, context: Context) -> TokenBreakdown:
        """The whole request by part, without the provider's word (rule B1)."""
        system = self.message(context.system) if context.system else 0
        tools = self._tools.total(context.tools)
        summary = self.summary(context.summary)
        durable = self.text(context.durable) + MESSAGE_OVERHEAD if context.durable else 0
        messages = self.messages(context.messages)
        return TokenBreakdown(
            system=system,
            tools=tools,
            summary=summary,
            durable=durable,
            messages=messages,
            reserved=context.reserved_output,
            total=system + tools + summary + durable + messages,
        )

    def breakdown(self, context: Context) -> TokenBreakdown:
        """The whole request by part, scaled by provider usage where that is valid (rules B1, B3).

        The report of the newest call is the true size of what stood before its answer; the answer and what
        follows are estimated."""
        estimate = self.estimate(context)
        report = newest_report(context.messages, context.usage_valid_after)
        if report is None:
            return estimate
        since = self.messages(context.messages[report.index :])
        scale = scale_of(report.tokens, estimate.total - since)
        return estimate if scale is None else _scaled(estimate, scale, report.tokens + since)

    def _message_cost(self, message: BaseMessage, parts: tuple[Any, ...]) -> int:
        custom = self._custom(message) if self._custom else None
        return message_tokens(parts, self._estimate) if custom is None else custom

    def _tool_cost(self, _tool: Any, parts: tuple[Any, ...]) -> int:
        return self.text(parts[0]) + MESSAGE_OVERHEAD


def counter_for(model: BaseChatModel | None, custom: str | None = None) -> TokenCounter:
    """A new counter for a model: 3.3 characters a token for Anthropic's models, else 4 (rule B3).

    ``custom`` is ``package.module:function`` (list of messages → tokens). Raises ConfigError when it cannot
    be loaded.
    """
    function = load_counter(custom) if custom else None
    anthropic = model is not None and "anthropic" in model._llm_type
    return TokenCounter(ANTHROPIC_CHARS_PER_TOKEN if anthropic else CHARS_PER_TOKEN, function)


def _scaled(estimate: TokenBreakdown, scale: float, total: int) -> TokenBreakdown:
    system, tools = round(estimate.system * scale), round(estimate.tools * scale)
    summary, durable = round(estimate.summary * scale), round(estimate.durable * scale)
    return replace(
        estimate,
        system=system,
        tools=tools,
        summary=summary,
        durable=durable,
        messages=max(0, total - system - tools - summary - durable),
        total=total,
        scale=scale,
    )


def _tool_parts(tool: Any) -> tuple[str]:
    """A tool as it is written into a request."""
    if isinstance(tool, dict):
        return (as_json(tool),)
    try:
        return (as_json(convert_to_openai_tool(tool)),)
    except Exception:  # noqa: BLE001 - any code may sit behind a tool's schema; the model call reports it better
        return (f"{getattr(tool, 'name', '')} {getattr(tool, 'description', '')}",)
