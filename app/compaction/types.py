"""The values that go into and come out of a compaction. All frozen; nothing here does anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

Redact = Callable[[str], str]
SizeKind = Literal["tokens", "messages", "fraction"]
CompactionKind = Literal["auto", "manual", "overflow"]
SkipReason = Literal["below_threshold", "not_enough_messages", "nothing_to_remove", "insufficient_gain"]


@dataclass(frozen=True, slots=True)
class ContextSize:
    """An amount of context: a number of messages, of tokens, or a fraction of the context window (0, 1]."""

    kind: SizeKind
    value: float


DEFAULT_KEEP = ContextSize("messages", 20)


def unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The settings of one compaction (``summarization`` of config.yaml, rules A1-A4).

    Token amounts are estimates of the project's counter; ``summary_timeout_s`` is seconds for one whole compaction.
    ``redact`` takes secrets out of all that a summarizer reads and of what it writes.
    """

    trigger: tuple[ContextSize, ...] = ()
    keep: ContextSize = DEFAULT_KEEP
    trim_tokens_to_summarize: int | None = 4000
    summary_prompt: str | None = None
    max_summary_tokens: int = 1500
    max_summary_calls: int = 8
    summary_timeout_s: float = 60.0
    target_fraction: float = 0.5
    min_gain_fraction: float = 0.1
    pin_budget_tokens: int = 4000
    overflow_fallback: Literal["extractive", "none"] = "extractive"
    redact: Redact = unchanged


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that one model call of a thread is made of, as it stands now (rule B1: the whole request counts).

    ``messages`` is the thread's live history. ``summary`` is the one live summary or None. ``durable`` is the
    rendered durable block without the summary, ``durable_next`` the same as it will be once there is a summary (None:
    no different). ``window`` is the context window in tokens that fraction clauses
    are measured against (rule A4), None when nobody declared one. ``reserved_output`` is what ``max_tokens`` of the
    running model reserves.
    ``usage_valid_after`` is the id of the last message that was in the history when the last compaction committed:
    provider usage reported on messages up to it is void (rule B3); None when the thread was never compacted.
    ``pinned`` are ids of messages that must stay. ``hold_tokens``: after an undo nothing is compacted automatically
    until the request has grown to so many tokens, or nearly fills the window.
    """

    messages: Sequence[BaseMessage] = field(repr=False)
    summary: str | None = field(default=None, repr=False)
    system: SystemMessage | None = None
    tools: Sequence[Any] = ()
    durable: str | None = None
    durable_next: str | None = None
    window: int | None = None
    reserved_output: int = 0
    usage_valid_after: str | None = None
    pinned: frozenset[str] = frozenset()
    hold_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenBreakdown:
    """Tokens by part of a request. ``total`` is what an absolute tokens clause is compared with;
    ``reserved`` (the reply's reservation) counts only against a window. ``scale`` is true tokens / estimated tokens
    of the last request whose usage a provider reported and that is still valid (rule B3), 1.0 without one."""

    system: int = 0
    tools: int = 0
    summary: int = 0
    durable: int = 0
    messages: int = 0
    reserved: int = 0
    total: int = 0
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may write the summary. ``build`` is called only when the candidate is tried and may raise.

    ``window`` is its declared context window in tokens, or None."""

    name: str
    build: Callable[[], BaseChatModel]
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelAttempt:
    """One candidate's try: its name and, when it failed, why (a class name and a sentence without secrets)."""

    name: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """A finished compaction that has not been written yet. ``removed`` + ``kept`` (+ ``dropped``) is the input.

    ``dropped`` are superseded reminders (rule C5): archived, not summarised. Token figures count the whole request.
    ``coverage`` is characters read / characters removed, 0..1. ``usage`` is the provider usage summed over all calls
    (``input_tokens``, ``output_tokens``, ``total_tokens``). ``extractive`` marks a summary no model wrote (rule E7),
    ``edited`` one that a person changed.
    ``waived_pins`` are ids of pinned messages among those that go: beyond the budget of pins (rule C4).
    """

    # Whole conversations do not belong into a repr: asyncio and logging make one without being asked to.
    removed: tuple[BaseMessage, ...] = field(repr=False)
    kept: tuple[BaseMessage, ...] = field(repr=False)
    dropped: tuple[BaseMessage, ...] = field(repr=False)
    summary: str = field(repr=False)
    tokens_before: int
    tokens_after: int
    coverage: float
    model_name: str | None
    models_tried: tuple[ModelAttempt, ...]
    usage: Mapping[str, int] = field(default_factory=dict)
    duration_ms: int = 0
    trigger: str | None = None
    extractive: bool = False
    edited: bool = False
    waived_pins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was done, and that is fine: why, and how large the request is."""

    reason: SkipReason
    tokens_before: int
    message_count: int
    models_tried: tuple[ModelAttempt, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    duration_ms: int = 0


Outcome = Compaction | Skipped
