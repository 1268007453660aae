"""The tokens that one run may use, counted while it runs: by its agent, its subagents and its compactions."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from app.compaction.tokens import TokenCounter
from app.compaction.types import Compaction, Skipped
from app.errors import BudgetExhausted, InvalidInput, SummaryGenerationError

BUDGET_KEY = "token_budget"
_PLACES = ("config.configurable", "context")
_counter = TokenCounter()
T = TypeVar("T", bound=Compaction | Skipped)


class TokenBudget(UsageMetadataCallbackHandler):
    """A callback of every model call of a run. ``limit`` None only counts.

    Raises BudgetExhausted in the place of a call that begins when the budget is spent. Calls that are under way by then
    end, so a run may use more, by as much as they need. A reply without reported usage is estimated.
    """

    raise_error = True
    run_inline = True

    def __init__(self, limit: int | None = None, before: int = 0) -> None:
        """``before``: what the workers used that had the run before this one."""
        super().__init__()
        self._limit = limit
        self._before = before
        self._spent = before
        self._asked: dict[UUID, list[list[BaseMessage]]] = {}

    @property
    def spent(self) -> int:
        """Tokens of prompts and replies together, here."""
        return self._spent - self._before

    @property
    def exhausted(self) -> bool:
        return self._limit is not None and self._spent >= self._limit

    def add(self, tokens: int) -> None:
        """Count what was used beside the calls that this is a callback of."""
        self._spent += tokens

    def check(self) -> None:
        """Raises BudgetExhausted."""
        if self.exhausted:
            raise BudgetExhausted(
                f"The run has used {self._spent} of the {self._limit} tokens it may use, and was stopped before its "
                "next model call"
            )

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self.check()
        self._asked[run_id] = messages

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        super().on_llm_end(response, **kwargs)
        asked = self._asked.pop(kwargs["run_id"], [])
        for number, replies in enumerate(response.generations):
            prompt = asked[number] if number < len(asked) else []
            self._spent += sum(_used(reply, prompt) for reply in replies)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._asked.pop(run_id, None)


CURRENT: ContextVar[TokenBudget | None] = ContextVar("token_budget", default=None)
"""The budget of the run that this is a part of; None outside a run."""


def is_spent() -> bool:
    """Whether this is a part of a run that may not use any more tokens."""
    budget = CURRENT.get()
    return budget is not None and budget.exhausted


async def charged(compacting: Awaitable[T]) -> T:
    """Count what a compaction used, which calls models without the callbacks of the run, also when it failed."""
    budget = CURRENT.get() or TokenBudget()
    try:
        outcome = await compacting
    except SummaryGenerationError as error:
        budget.add(error.usage.get("total_tokens", 0))
        raise
    budget.add(outcome.usage.get("total_tokens", 0))
    return outcome


def budget_of(config: Mapping[str, Any], context: Mapping[str, Any] | None, limit: int | None) -> int | None:
    """The smaller of the configured limit and what the client asks for, in ``config.configurable.token_budget`` or
    ``context.token_budget``. Raises InvalidInput for what is no number of tokens."""
    asked = [
        _whole(values[BUDGET_KEY], f"{where}.{BUDGET_KEY}")
        for where, values in zip(_PLACES, (config.get("configurable") or {}, context or {}), strict=True)
        if values.get(BUDGET_KEY) is not None
    ]
    return min((*asked, *(() if limit is None else (limit,))), default=None)


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{where}: must be a whole number of 1 or more")
    return value


def _used(reply: Any, prompt: Sequence[BaseMessage]) -> int:
    message = reply.message if isinstance(reply, ChatGeneration) else None
    if isinstance(message, AIMessage) and message.usage_metadata:
        return message.usage_metadata["total_tokens"]
    return _counter.messages(prompt) + (_counter.message(message) if message else 0)
