"""The whole request counts, and the provider's word where it is valid (rules B1-B3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from app.compaction.tokens import TokenCounter
from app.compaction.types import Context
from tests.compaction.build import ai, flat, human, result, system, tool_round
from tests.compaction.histories import histories


@tool
def search_flights(origin: str, destination: str, passengers: int = 1) -> str:
    """Search flights between two airports on the next day that has any."""
    return f"{origin} {destination} {passengers}"


def used(tokens: Any, text: str = "answer") -> AIMessage:
    usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
    return ai(text, usage_metadata=usage)


def test_every_part_of_the_request_counts() -> None:
    counter = TokenCounter()
    empty = counter.breakdown(Context(messages=()))
    assert empty.total == 0
    full = Context(
        messages=[human("hello")],
        summary="what was",
        system=system("rules"),
        tools=[search_flights],
        durable="todos",
        reserved_output=500,
    )
    parts = counter.breakdown(full)
    assert min(parts.system, parts.tools, parts.summary, parts.durable, parts.messages) > 0
    assert parts.total == parts.system + parts.tools + parts.summary + parts.durable + parts.messages
    assert parts.reserved == 500


def test_a_tool_costs_its_schema_whether_it_comes_as_an_object_or_as_a_dict() -> None:
    counter = TokenCounter()
    as_object = counter.breakdown(Context(messages=(), tools=[search_flights])).tools
    parameters = {"type": "object", "properties": {"x": {"type": "string", "description": "word " * 100}}}
    as_dict = counter.breakdown(Context(messages=(), tools=[{"name": "f", "parameters": parameters}])).tools
    assert 30 < as_object < 200
    assert as_dict > 100


def test_a_tool_without_a_schema_does_not_end_the_count() -> None:
    class Odd:
        name = "odd"
        description = "word " * 100

    assert TokenCounter().breakdown(Context(messages=(), tools=[Odd()])).tools > 100


def test_the_summary_counts_its_tokens_and_one_message() -> None:
    counter = TokenCounter()
    text = "The user wants a report by Friday. " * 20
    assert counter.summary(text) == counter.message(human(text))
    assert counter.summary(None) == counter.summary("") == 0


def test_the_providers_count_replaces_the_estimate_of_the_request_it_was_reported_for() -> None:
    question, answer, after = human("word " * 200), used(400), human("word " * 100)
    counter = TokenCounter()
    estimate = counter.estimate(Context(messages=[question, answer, after]))
    parts = counter.breakdown(Context(messages=[question, answer, after]))
    assert parts.total == 400 + counter.message(answer) + counter.message(after) != estimate.total
    assert parts.scale == pytest.approx(400 / counter.message(question))


def test_the_parts_are_scaled_and_still_add_up() -> None:
    context = Context(
        messages=[human("word " * 200), used(900), human()],
        system=system("rule " * 100),
        summary="was " * 50,
        durable="todo " * 20,
        tools=[search_flights],
    )
    counter = TokenCounter()
    parts, estimate = counter.breakdown(context), counter.estimate(context)
    assert parts.total == parts.system + parts.tools + parts.summary + parts.durable + parts.messages
    assert parts.system == round(estimate.system * parts.scale) > estimate.system


def test_the_newest_report_is_used() -> None:
    messages = [human("word " * 100), used(100), human("word " * 100), used(350)]
    assert TokenCounter().breakdown(Context(messages=messages)).total > 350


def test_a_report_is_found_behind_tool_results_and_answers_without_usage() -> None:
    call = ai("", "c1", usage_metadata={"input_tokens": 250, "output_tokens": 1, "total_tokens": 251})
    messages = [human("word " * 100), call, result("c1"), ai("no usage")]
    assert TokenCounter().breakdown(Context(messages=messages)).scale > 1.2


def test_usage_reported_before_the_last_compaction_is_void() -> None:
    old, newest = used(600), human("word " * 50)
    context = Context(messages=[human("word " * 200), old, newest], usage_valid_after=newest.id)
    counter = TokenCounter()
    assert counter.breakdown(context) == counter.estimate(context)
    assert counter.breakdown(replace(context, usage_valid_after=old.id)) == counter.estimate(context)
    assert counter.breakdown(replace(context, usage_valid_after=None)).scale > 2


def test_usage_reported_after_the_last_compaction_is_valid() -> None:
    first = human("word " * 200)
    context = Context(messages=[first, used(500), human()], usage_valid_after=first.id)
    assert TokenCounter().breakdown(context).scale > 1.5


def test_usage_is_void_when_the_last_compaction_cannot_be_found() -> None:
    context = Context(messages=[human("word " * 200), used(500)], usage_valid_after="gone")
    assert TokenCounter().breakdown(context).scale == 1.0


@pytest.mark.parametrize("tokens", [0, -5, 20, 100_000])
def test_usage_that_cannot_be_true_is_not_believed(tokens: int) -> None:
    context = Context(messages=[human("word " * 200), used(tokens), human()])
    counter = TokenCounter()
    assert counter.breakdown(context) == counter.estimate(context)


def test_usage_on_the_very_first_message_scales_nothing() -> None:
    assert TokenCounter().breakdown(Context(messages=[used(500)])).scale == 1.0


def test_a_custom_counter_counts_everything() -> None:
    context = Context(
        messages=tool_round("c1"), summary="x", system=system(), durable="y", tools=[search_flights]
    )
    parts = flat().estimate(context)
    assert (parts.system, parts.messages, parts.summary) == (10, 20, 14)


@given(histories())
def test_a_breakdown_adds_up_for_any_history(messages: list[BaseMessage]) -> None:
    parts = TokenCounter().breakdown(Context(messages=messages, system=system(), summary="s", durable="d"))
    assert parts.total == parts.system + parts.tools + parts.summary + parts.durable + parts.messages
