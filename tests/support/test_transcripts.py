"""The conversations that other tests stand on: deterministic, valid where they claim to be, and large enough."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from app.compaction.tokens import TokenCounter
from tests.support.prose import text
from tests.support.transcripts import (
    Transcript,
    first_turn_with_tool_rounds,
    forty_steps_28kb,
    generated,
    interrupted_session,
    load_shared_transcripts,
    long_session,
    shipped,
)

WHOLE = [transcript for transcript in generated() if transcript.name != "interrupted"] + [shipped()]


def unmatched(transcript: Transcript) -> tuple[set[str], set[str]]:
    """Ids of calls without a result, and of results without a call before them."""
    called: set[str] = set()
    answered: set[str] = set()
    orphans: set[str] = set()
    for message in transcript.as_messages():
        if isinstance(message, AIMessage):
            called |= {str(call["id"]) for call in message.tool_calls}
        if isinstance(message, ToolMessage):
            (answered if message.tool_call_id in called else orphans).add(message.tool_call_id)
    return called - answered, orphans


@pytest.mark.parametrize("transcript", WHOLE, ids=str)
def test_every_call_has_its_result_and_every_id_is_there_once(transcript: Transcript) -> None:
    assert unmatched(transcript) == (set(), set())
    assert max(Counter(message["id"] for message in transcript.messages).values()) == 1


def test_the_interrupted_session_is_broken_in_the_ways_it_says() -> None:
    pending, orphans = unmatched(Transcript("interrupted", interrupted_session()))
    assert len(pending) == 3
    assert orphans == {"call_from_elsewhere"}


def test_generated_conversations_are_the_same_each_time() -> None:
    assert generated() == generated()
    assert text("prose", 500, 1) == text("prose", 500, 1) != text("prose", 500, 2)


@pytest.mark.parametrize("messages", [1, 2, 3, 50, 199, 1_000])
def test_a_long_session_has_as_many_messages_as_asked_for(messages: int) -> None:
    session = Transcript("long", long_session(messages, 200))
    assert len(session.as_messages()) == messages
    assert unmatched(session) == (set(), set())


def test_reported_usage_grows_with_the_session() -> None:
    reported = [
        message.usage_metadata
        for message in Transcript("x", long_session(60, usage=True)).as_messages()
        if isinstance(message, AIMessage)
    ]
    inputs = [usage["input_tokens"] for usage in reported if usage is not None]
    assert len(inputs) == len(reported)
    assert inputs == sorted(inputs)


def test_the_large_sessions_are_as_large_as_their_names() -> None:
    assert [message["type"] for message in first_turn_with_tool_rounds(20)] == ["human"] + ["ai", "tool"] * 20
    results = [message["content"] for message in forty_steps_28kb() if message["type"] == "tool"]
    assert [len(content) for content in results] == [28_000] * 40


def test_the_shipped_session_is_above_the_shipped_trigger_and_small_on_disk() -> None:
    session = shipped()
    assert 40_000 < TokenCounter().messages(session.as_messages()) < 60_000
    assert 55 <= len(session.messages) <= 70
    file = Path(__file__).parent.parent / "data" / "research-session.json"
    assert file.stat().st_size < 300_000
    assert {message["type"] for message in session.messages} == {"system", "human", "ai", "tool"}
    assert any(message.get("status") == "error" for message in session.messages)


def test_transcripts_of_another_folder_are_read_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"type": "human", "content": "hi", "id": "1", "name": None}]
    (tmp_path / "b.json").write_text(json.dumps({"messages": rows}))
    (tmp_path / "a.json").write_text(json.dumps({"messages": []}))
    monkeypatch.setenv("THREADKEEP_TRANSCRIPTS", str(tmp_path))
    assert [(found.name, found.messages) for found in load_shared_transcripts()] == [
        ("a", []),
        ("b", [{"type": "human", "content": "hi", "id": "1"}]),
    ]
    monkeypatch.setenv("THREADKEEP_TRANSCRIPTS", str(tmp_path / "missing"))
    assert list(load_shared_transcripts()) == []


def test_transcripts_beside_the_repository_can_all_be_used() -> None:
    for transcript in load_shared_transcripts():
        assert len(transcript.as_messages()) == len(transcript.messages) > 0
