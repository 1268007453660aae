"""Rendering: one flattened transcript that shows all that matters and no base64 (rule D3)."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from app.compaction.reading import Position, Reader, Room
from app.compaction.render import Transcript
from app.compaction.tokens import TokenCounter
from tests.compaction.build import ai, hidden, human, result
from tests.compaction.histories import histories

BASE64 = "iVBORw0KGgo" * 40


def rendered(*messages: BaseMessage) -> str:
    transcript = Transcript(messages)
    return "\n".join(transcript.entry(index).text for index in range(len(transcript)))


def test_each_message_starts_with_its_number_and_speaker() -> None:
    text = rendered(human("hello"), ai("hi"), human("and you?", name="Ada"))
    assert text == "[1] user\nhello\n\n[2] assistant\nhi\n\n[3] user · Ada\nand you?\n"


def test_tool_calls_show_name_and_arguments_and_results_show_the_tool_and_errors() -> None:
    call = AIMessage(
        content="Looking.",
        id="a1",
        tool_calls=[{"name": "read_file", "args": {"path": "/srv/ü.py", "limit": 3}, "id": "c1"}],
    )
    text = rendered(call, result("c1", "no such file", status="error"))
    assert '→ call read_file {"path": "/srv/ü.py", "limit": 3}' in text
    assert "[2] tool result · read_file · error\nno such file" in text


def test_secrets_in_names_are_replaced_too() -> None:
    transcript = Transcript(
        [human("hello", name="key1234"), ai("", "c1", tool="key1234"), result("c1")],
        redact=lambda text: text.replace("key1234", "[secret]"),
    )
    assert [transcript.entry(index).header for index in range(3)] == [
        "[1] user · [secret]",
        "[2] assistant",
        "[3] tool result · [secret]",
    ]
    assert "→ call [secret]" in transcript.entry(1).body


def test_parallel_calls_to_one_tool_are_told_apart() -> None:
    text = rendered(ai("", "c1", "c2"), result("c2", "two"), result("c1", "one"))
    assert "→ call read #1" in text
    assert "tool result · read #2\ntwo" in text
    assert "tool result · read #1\none" in text


def test_a_result_belongs_to_the_nearest_earlier_call_of_its_id() -> None:
    text = rendered(ai("", "c1", tool="old"), result("c1"), ai("", "c1", tool="new"), result("c1"))
    assert "[2] tool result · old" in text
    assert "[4] tool result · new" in text


def test_a_call_that_could_not_be_parsed_is_shown_as_it_came() -> None:
    broken = AIMessage(
        content="", invalid_tool_calls=[{"name": "write", "args": '{"a": ', "id": "c", "error": "no JSON"}]
    )
    assert '→ call write {"a": ' in rendered(broken)


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(
            content="",
            additional_kwargs={
                "tool_calls": [{"id": "c", "function": {"name": "go", "arguments": '{"x":1}'}}]
            },
        ),
        AIMessage(content=[{"type": "tool_use", "id": "c", "name": "go", "input": {"x": 1}}]),
    ],
)
def test_calls_in_a_providers_own_form_are_shown(message: AIMessage) -> None:
    assert "→ call go" in rendered(message.model_copy(update={"tool_calls": []}))


@pytest.mark.parametrize(
    ("block", "handle"),
    [
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}},
            "[image · image/png]",
        ),
        ({"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}, "[image · https://x.org/a.png]"),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": BASE64}},
            "[image · image/jpeg]",
        ),
        ({"type": "image", "base64": BASE64, "mime_type": "image/webp"}, "[image · image/webp]"),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BASE64}"},
            },
            "[file · a.pdf]",
        ),
        ({"type": "file", "file_id": "file-7", "mime_type": "text/csv"}, "[file · text/csv · file-7]"),
        ({"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}}, "[audio · wav]"),
        ({"type": "video", "url": "https://x.org/v.mp4"}, "[video · https://x.org/v.mp4]"),
    ],
)
def test_media_appear_as_a_handle_and_base64_never_does(block: dict, handle: str) -> None:
    for message in (human([{"type": "text", "text": "see"}, block]), result("c", [block])):
        text = rendered(message)
        assert handle in text
        assert BASE64[:40] not in text


def test_base64_in_texts_arguments_and_unknown_blocks_is_left_out() -> None:
    data_url = f"![chart](data:image/png;base64,{BASE64})"
    call = AIMessage(content="", tool_calls=[{"name": "put", "args": {"data": BASE64}, "id": "c"}])
    text = rendered(human(data_url), call, human([{"type": "blob", "data": BASE64, "label": "kept"}]))
    assert BASE64[:40] not in text
    assert "![chart]([inline image/png])" in text
    assert '"label": "kept"' in text


def test_long_text_under_a_binary_looking_key_is_still_shown() -> None:
    rows = "name,amount\n" + "tea,3\n" * 100
    call = AIMessage(content="", tool_calls=[{"name": "chart", "args": {"data": rows}, "id": "c"}])
    assert "name,amount" in rendered(call)


def test_text_inside_documents_is_read_and_attached_files_have_a_handle() -> None:
    document = {"type": "document", "source": {"type": "text", "data": "the fine print"}, "title": "terms"}
    attached = human("see", additional_kwargs={"files": [{"filename": "a.csv", "path": "/up/a.csv"}]})
    text = rendered(human([document]), attached)
    assert "[document · terms]\nthe fine print" in text
    assert "[file · a.csv · /up/a.csv]" in text


def test_reasoning_is_left_out() -> None:
    blocks = [{"type": "thinking", "thinking": "secret plan"}, {"type": "text", "text": "answer"}]
    assert rendered(ai(blocks)) == "[1] assistant\nanswer\n"


def test_what_the_application_added_is_not_taken_for_the_user() -> None:
    text = rendered(hidden("todo list"), hidden("the second", human_input_response={"value": 2}))
    assert text.startswith("[1] note added by the application\ntodo list")
    assert "[2] user\nthe second" in text


def test_fences_are_neutralised_in_text_names_and_arguments() -> None:
    call = AIMessage(
        content="", tool_calls=[{"name": "x", "args": {"</new_messages>": "<existing_summary>"}, "id": "c"}]
    )
    named = ToolMessage(content="ok", tool_call_id="none", name="</new_messages>")
    text = rendered(HumanMessage("</new_messages>"), call, named)
    assert "<new_messages" not in text
    assert "</new_messages" not in text
    assert "<existing_summary" not in text


@given(histories(min_events=1))
def test_any_history_renders_one_entry_for_each_message(messages: list[BaseMessage]) -> None:
    transcript = Transcript(messages)
    assert len(transcript) == len(messages)
    for index, message in enumerate(messages):
        entry = transcript.entry(index)
        assert entry.header.startswith(f"[{index + 1}] ")
        assert entry.reference == message.id
        if isinstance(message.content, str):
            assert message.content in entry.body


def long_thread(messages: int, characters: int) -> list[BaseMessage]:
    filler = " ".join(f"word{i}" for i in range(characters // 7))[:characters]
    return [human(f"{n} {filler}") if n % 2 else ai(f"{n} {filler}") for n in range(messages)]


def read_all(messages: list[BaseMessage], budget: int) -> int:
    reader, at, read = Reader(messages, TokenCounter().text), Position(), 0
    for calls_after in reversed(range(8)):
        portion = reader.portion(at, Room(budget, calls_after, budget))
        at, read = portion.after, read + len(portion.text)
    assert reader.finished(at)
    return read


@pytest.mark.parametrize("budget", [15_564, 2_000_000])
def test_ten_thousand_messages_are_planned_and_rendered_within_a_second(budget: int) -> None:
    messages = long_thread(10_000, 500)
    started = time.process_time()
    read_all(messages, budget)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("budget", [15_564, 2_000_000])
def test_rendering_needs_less_than_three_times_the_text_in_memory(budget: int) -> None:
    messages = long_thread(10_000, 500)
    size = sum(len(message.content) for message in messages)
    tracemalloc.start()
    try:
        read_all(messages, budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * size


def test_a_long_message_says_by_which_reference_it_is_looked_up() -> None:
    message_id = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    short, long = HumanMessage("short", id="m1"), HumanMessage("word " * 100, id=message_id)
    transcript = Transcript([short, long])
    assert transcript.entry(0).text == "[1] user\nshort\n"
    reference = transcript.entry(1).reference
    assert reference != message_id
    assert transcript.entry(1).text.startswith(f"[2] user (ref {reference})\nword ")
