"""A counter of the user's replaces the estimate and cannot end a run (rule B3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage

from app.compaction.tokens import TokenCounter, counter_for
from app.errors import ConfigError
from tests.compaction.build import human


class AnthropicLike(FakeListChatModel):
    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"


def seven(messages: Sequence[BaseMessage]) -> int:
    return 7 * len(messages)


not_a_function = 7


def test_a_counter_is_loaded_by_its_path() -> None:
    counter = counter_for(None, f"{__name__}:seven")
    assert counter.messages([human(), human("x" * 9000)]) == 14
    assert counter.text("x" * 9000) == 7


@pytest.mark.parametrize(
    "path", ["nowhere", "no.such.module:f", f"{__name__}:missing", f"{__name__}:not_a_function", ":f", ""]
)
def test_a_path_that_leads_nowhere_is_an_error_that_names_it(path: str) -> None:
    if path == "":
        assert counter_for(None, path).text("word") == 1
        return
    with pytest.raises(ConfigError, match="token_counter") as raised:
        counter_for(None, path)
    assert repr(path) in str(raised.value)


@pytest.mark.parametrize("nonsense", [None, "12", True, -1, float("nan"), float("inf"), [1]])
def test_nonsense_is_replaced_by_the_estimate_with_one_warning(
    nonsense: Any, caplog: pytest.LogCaptureFixture
) -> None:
    counter = TokenCounter(custom=lambda _messages: nonsense)
    messages = [human("word " * n) for n in range(1, 5)]
    with caplog.at_level(logging.WARNING):
        assert counter.messages(messages) == TokenCounter().messages(messages)
    assert len(caplog.records) == 1
    assert "estimating" in caplog.text


def test_a_counter_that_raises_is_replaced_where_it_raised_only(caplog: pytest.LogCaptureFixture) -> None:
    def picky(messages: Sequence[BaseMessage]) -> int:
        if messages[0].content == "bad":
            raise RuntimeError("no such token")
        return 50

    counter = TokenCounter(custom=picky)
    assert counter.message(human("good")) == 50
    assert counter.message(human("bad")) == TokenCounter().message(human("bad"))
    assert "RuntimeError: no such token" in caplog.text


def test_fractions_of_tokens_are_rounded_up() -> None:
    assert TokenCounter(custom=lambda _messages: 2.1).message(human()) == 3


def test_anthropic_models_have_fewer_characters_a_token() -> None:
    text = "a plain sentence of several words. " * 50
    anthropic = counter_for(AnthropicLike(responses=["x"])).text(text)
    other = counter_for(FakeListChatModel(responses=["x"])).text(text)
    assert anthropic == pytest.approx(other * 4 / 3.3, rel=0.01)
    assert counter_for(None).text(text) == other
