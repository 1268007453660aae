"""Facts by the demo model: a simple rule, and honest about where it has them from."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from app.chat_models.demo import DemoChatModel
from app.services.memory.prompt import prompt
from tests.compaction.build import ai, human


def noted(*said: str, known: dict[str, str] | None = None) -> dict[str, Any]:
    messages = [message for text in said for message in (ai("My name is Demo. I prefer tea."), human(text))]
    asked = prompt(messages, list((known or {}).items()), date(2026, 1, 5), 100, "My name is Zoe.")
    return json.loads(DemoChatModel().invoke([HumanMessage(asked)]).text)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("My name is Anna.", "name"),
        ("Please call me Ann!", "name"),
        ("我叫安娜。", "name"),
        ("I prefer short answers, always", "prefer-short-answers"),
        ("By the way, I work on the parser.", "work-on-the-parser"),
        ("Remember that the garden has forty beds", "remember-the-garden-has-forty"),
        ("my time zone is CET", "time-zone"),
    ],
)
def test_a_sentence_about_the_person_is_quoted_under_its_key(said: str, key: str) -> None:
    assert noted(f"Hello. {said}") == {
        "facts": [{"key": key, "text": f"The person said: “{said}”"}],
        "forget": [],
    }


@pytest.mark.parametrize(
    "said", ["What is my name?", "Sort the list.", "Do you remember that I was here?", ""]
)
def test_other_sentences_are_not(said: str) -> None:
    assert noted(said) == {"facts": [], "forget": []}


def test_the_last_word_counts() -> None:
    assert [fact["text"] for fact in noted("My name is Ann.", "My name is Anna.")["facts"]] == [
        "The person said: “My name is Anna.”"
    ]


def test_a_fact_is_taken_back_by_name_or_by_what_it_says() -> None:
    known = {"name": "x", "remember-the-garden-has-forty": "y", "prefer-tea": "z"}
    assert noted("Forget my name.", known=known)["forget"] == ["name"]
    assert noted("Forget that the garden has forty beds.", known=known)["forget"] == [
        "remember-the-garden-has-forty"
    ]
    assert noted("Forget that I prefer tea.", known=known) == {"facts": [], "forget": ["prefer-tea"]}
    assert noted("Forget my shoes.", known=known)["forget"] == []


def test_no_script_is_consumed() -> None:
    model = DemoChatModel(script=["one"], summary_script=["two"])
    asked = prompt([human("My name is Anna.")], [], date(2026, 1, 5), 100, None)
    assert "Anna" in model.invoke([HumanMessage(asked)]).text
    assert model.invoke("hi").text == "one"
