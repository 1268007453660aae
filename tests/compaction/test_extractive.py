"""The summary that no model wrote (rule E7)."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage

from app.compaction.extractive import EXTRACTIVE_MARK, extractive_summary
from app.compaction.tokens import TokenCounter
from tests.compaction.build import ai, hidden, human, result
from tests.compaction.histories import histories

COUNT = TokenCounter().text


def summary(messages: list[BaseMessage], previous: str | None = None, max_tokens: int = 1500) -> str:
    return extractive_summary(messages, previous, max_tokens, COUNT)


def thread() -> list[BaseMessage]:
    call = AIMessage(
        content="", id="a", tool_calls=[{"name": "read", "args": {"path": "/srv/app/main.py"}, "id": "c"}]
    )
    return [
        human("Fix the login bug in services/auth/login.py, see https://x.org/issue?id=7"),
        hidden("internal nudge"),
        call,
        result("c", "def main(): ...  # see TICKET-42 and 123e4567-e89b-12d3-a456-426614174000"),
        human("Do not touch the database."),
        ai("Next I will run the tests."),
    ]


def test_it_says_in_its_first_line_that_no_model_wrote_it() -> None:
    assert summary(thread()).splitlines()[0] == EXTRACTIVE_MARK


def test_it_holds_the_users_requests_in_order_and_nothing_the_application_added() -> None:
    text = summary(thread())
    assert text.index("Fix the login bug") < text.index("Do not touch the database.")
    assert "internal nudge" not in text


def test_it_holds_paths_links_and_ids() -> None:
    text = summary(thread())
    for reference in (
        "/srv/app/main.py",
        "services/auth/login.py",
        "https://x.org/issue?id=7",
        "TICKET-42",
        "123e4567-e89b-12d3-a456-426614174000",
    ):
        assert f"- {reference}" in text


def test_it_holds_the_last_state_and_the_previous_summary() -> None:
    text = summary(thread(), previous="## Intent\nShip version 3.")
    assert "Next I will run the tests." in text
    assert "Ship version 3." in text


def test_a_second_one_does_not_pile_up_marks() -> None:
    twice = summary(thread(), previous=summary(thread()))
    assert twice.count(EXTRACTIVE_MARK) == 1
    assert twice.count("## Summary before this one") == 1


def test_when_there_are_too_many_requests_the_first_and_the_newest_stay() -> None:
    messages: list[BaseMessage] = [human(f"Request number {i}: " + "details " * 30) for i in range(200)]
    text = summary(messages, max_tokens=800)
    assert "Request number 0:" in text
    assert "Request number 199:" in text
    assert "Request number 100:" not in text


@given(
    histories(), st.sampled_from([None, "old", "## A\n" + "x y " * 3000]), st.sampled_from([60, 200, 1500])
)
def test_it_never_exceeds_its_limit_and_is_always_the_same(
    messages: list[BaseMessage], previous: str | None, limit: int
) -> None:
    text = summary(messages, previous, limit)
    assert COUNT(text) <= limit
    assert text == summary(messages, previous, limit)


def test_hostile_texts_are_searched_in_linear_time() -> None:
    messages = [human("a+b." * 100_000), human("x/" * 200_000), human("a" * 400_000), human("/" * 400_000)]
    started = time.process_time()
    summary(messages)
    assert time.process_time() - started < 5
