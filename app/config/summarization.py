"""The section ``summarization``: when threads are compacted, by which model, what stays (section A)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from app.compaction.types import DEFAULT_KEEP, CompactionPolicy, ContextSize, SizeKind
from app.config.imports import import_attribute
from app.config.problems import Problem
from app.config.values import (
    PositiveNumber,
    PositiveWhole,
    Section,
    Share,
    Text,
    positive_number,
    positive_whole,
    refuse,
    share,
)


class ContextSizeSettings(Section):
    type: SizeKind
    value: float

    @field_validator("value", mode="before")
    @classmethod
    def _fits_type(cls, value: Any, info: Any) -> float:
        match info.data.get("type"):
            case "fraction":
                return share(value)
            case "messages":
                return float(positive_whole(value))
            case _:
                return positive_number(value)

    @property
    def size(self) -> ContextSize:
        """As the compaction library has it; what is whole is an int, so that people read 20, not 20.0."""
        return ContextSize(self.type, int(self.value) if self.value.is_integer() else self.value)


class SummarizationSettings(Section):
    """Rules A1-A4. The defaults are the code's; the shipped config.yaml sets tighter ones.

    ``trigger`` empty: never automatic (A3). ``keep`` None: ``DEFAULT_KEEP``, or half of a message trigger
    that is not above it. ``token_counter`` names a function ``(messages) -> int`` instead of the estimator.
    """

    enabled: bool = True
    model_name: Text | None = None
    trigger: Annotated[tuple[ContextSizeSettings, ...], Field(strict=False)] = ()
    keep: ContextSizeSettings | None = None
    trim_tokens_to_summarize: PositiveWhole | None = 4000
    summary_prompt: str | None = None
    skill_file_read_tool_names: Annotated[tuple[Text, ...], Field(strict=False)] = (
        "read_file",
        "read",
        "view",
        "cat",
    )
    max_summary_tokens: PositiveWhole = 1500
    max_summary_calls: PositiveWhole = 8
    summary_timeout_s: PositiveNumber = 60.0
    target_fraction: Share = 0.5
    min_gain_fraction: Share = 0.1
    pin_budget_tokens: PositiveWhole = 4000
    draft_ttl_hours: PositiveNumber = 24.0
    overflow_fallback: Literal["extractive", "none"] = "extractive"
    token_counter: Text | None = None

    @field_validator("trigger", mode="before")
    @classmethod
    def _one_or_many(cls, trigger: Any) -> Any:
        match trigger:
            case None:
                return ()
            case dict():
                return (trigger,)
            case _:
                return trigger

    @field_validator("summary_prompt")
    @classmethod
    def _has_messages(cls, prompt: str | None) -> str | None:
        if prompt is not None and "{messages}" not in prompt:
            raise refuse("must contain {messages}, where the conversation is put")
        return prompt

    @field_validator("token_counter")
    @classmethod
    def _is_a_function(cls, target: str | None) -> str | None:
        if target is not None:
            _check_function(target)
        return target

    @property
    def kept(self) -> ContextSize:
        """What stays verbatim when the request is within its means (rules A4 and C2)."""
        if self.keep is not None:
            return self.keep.size
        triggers = [size.value for size in self.trigger if size.type == DEFAULT_KEEP.kind]
        smallest = min(triggers, default=float("inf"))
        if smallest > DEFAULT_KEEP.value:
            return DEFAULT_KEEP
        return ContextSize(DEFAULT_KEEP.kind, max(1, smallest // 2))

    @property
    def policy(self) -> CompactionPolicy:
        """The same as the value the compaction library works with."""
        return CompactionPolicy(
            trigger=tuple(size.size for size in self.trigger),
            keep=self.kept,
            trim_tokens_to_summarize=self.trim_tokens_to_summarize,
            summary_prompt=self.summary_prompt,
            max_summary_tokens=self.max_summary_tokens,
            max_summary_calls=self.max_summary_calls,
            summary_timeout_s=self.summary_timeout_s,
            target_fraction=self.target_fraction,
            min_gain_fraction=self.min_gain_fraction,
            pin_budget_tokens=self.pin_budget_tokens,
            overflow_fallback=self.overflow_fallback,
        )

    def conflicts(self) -> list[Problem]:
        """A ``keep`` that is not smaller than every trigger of its type would keep all there is (rule A2)."""
        keep = self.kept
        return [
            Problem(
                ("summarization", "keep"),
                f"{keep.value:g} {keep.kind} is not allowed: it must be smaller than the trigger of "
                f"{clause.value:g} {clause.type}",
            )
            for clause in self.trigger
            if clause.type == keep.kind and keep.value >= clause.value
        ]

    def warnings(self) -> list[str]:
        if self.enabled and not self.trigger:
            return [
                "summarization.trigger is not set: threads are compacted by /compact only, never "
                "automatically; set for example trigger: [{type: tokens, value: 32000}]"
            ]
        return []


def _check_function(target: str) -> None:
    try:
        found = import_attribute(target)
    except Exception as error:  # noqa: BLE001 - importing runs foreign code, which raises anything
        raise refuse(
            f'must be an importable "package.module:function" ({type(error).__name__}: {error})'
        ) from None
    if not callable(found):
        raise refuse(f'must name a function, "package.module:function"; this is a {type(found).__name__}')
