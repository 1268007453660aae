"""The section ``summarization`` as the compaction library gets it (rules A1-A4)."""

from __future__ import annotations

from typing import Any

import pytest

from app.compaction.types import DEFAULT_KEEP, ContextSize
from app.config import SummarizationSettings, settings_from


def summarization(**keys: Any) -> SummarizationSettings:
    return settings_from({"summarization": keys}).summarization


def size(kind: str, value: float) -> dict[str, Any]:
    return {"type": kind, "value": value}


def test_one_trigger_and_a_list_of_triggers_mean_the_same() -> None:
    one = summarization(trigger=size("tokens", 4000))
    many = summarization(trigger=[size("tokens", 4000)])

    assert one.policy.trigger == many.policy.trigger == (ContextSize("tokens", 4000),)


def test_all_kinds_of_sizes_reach_the_policy() -> None:
    policy = summarization(
        trigger=[size("tokens", 4000), size("messages", 50), size("fraction", 0.8)],
        keep=size("fraction", 0.3),
    ).policy

    assert policy.trigger == (
        ContextSize("tokens", 4000),
        ContextSize("messages", 50),
        ContextSize("fraction", 0.8),
    )
    assert policy.keep == ContextSize("fraction", 0.3)


def test_a_whole_number_written_with_a_point_is_read_as_whole() -> None:
    policy = summarization(keep=size("messages", 20.0), trim_tokens_to_summarize=4000.0).policy

    assert repr(policy.keep.value) == "20"
    assert repr(policy.trim_tokens_to_summarize) == "4000"


@pytest.mark.parametrize(
    "keys",
    [
        {"max_summary_tokens": 700},
        {"max_summary_calls": 3},
        {"summary_timeout_s": 5.5},
        {"target_fraction": 0.4},
        {"min_gain_fraction": 0.2},
        {"pin_budget_tokens": 100},
        {"overflow_fallback": "none"},
        {"trim_tokens_to_summarize": None},
        {"summary_prompt": "Sum up {messages} as {json: {}}"},
    ],
)
def test_each_key_beyond_the_reference_reaches_the_policy(keys: dict[str, Any]) -> None:
    (name, value) = next(iter(keys.items()))

    assert getattr(summarization(**keys).policy, name) == value


def test_a_keep_that_nobody_set_makes_way_for_a_message_trigger_below_it() -> None:
    assert summarization(trigger=size("messages", 50)).policy.keep == DEFAULT_KEEP
    assert summarization(trigger=size("messages", 20)).policy.keep == ContextSize("messages", 10)
    assert summarization(trigger=size("messages", 3)).policy.keep == ContextSize("messages", 1)


def test_enabled_without_a_trigger_is_a_warning() -> None:
    assert any(
        "summarization.trigger" in line
        for line in settings_from({"summarization": {"enabled": True}}).warnings
    )


@pytest.mark.parametrize("keys", [{"enabled": False}, {"trigger": {"type": "tokens", "value": 1}}])
def test_disabled_or_with_a_trigger_there_is_no_such_warning(keys: dict[str, Any]) -> None:
    assert settings_from({"summarization": keys}).warnings == ()


@pytest.mark.parametrize("model_name", ["gpt", "demo"])
def test_the_summariser_may_be_any_configured_model_or_the_demo_model(model_name: str) -> None:
    document = {
        "models": [{"name": "gpt", "use": "langchain_openai:ChatOpenAI"}],
        "summarization": {"model_name": model_name},
    }

    assert settings_from(document).summarization.model_name == model_name


def test_a_function_may_replace_the_token_counter() -> None:
    assert summarization(token_counter="builtins:len").token_counter == "builtins:len"


def test_no_names_of_read_tools_is_allowed_and_turns_their_capture_off() -> None:
    assert summarization(skill_file_read_tool_names=[]).skill_file_read_tool_names == ()
