"""What a message costs (rule B3): content blocks, pictures by size, calls once, no ciphertext."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import BaseMessage

from app.compaction.tokens import TokenCounter
from tests.compaction.build import ai, human, result
from tests.compaction.histories import histories

COUNTER = TokenCounter()
BARE = COUNTER.message(human(""))


def cost(*blocks: Any) -> int:
    return COUNTER.message(human(list(blocks))) - BARE


def png(width: int, height: int, padding: int = 0) -> str:
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    return base64.b64encode(header + bytes(padding)).decode()


def jpeg(width: int, height: int) -> str:
    thumbnail = b"\xff\xe1" + struct.pack(">H", 2000) + bytes(1998)
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + bytes(20)
    return base64.b64encode(b"\xff\xd8" + thumbnail + frame).decode()


def gif(width: int, height: int) -> str:
    return base64.b64encode(b"GIF89a" + struct.pack("<HH", width, height) + bytes(20)).decode()


def webp(width: int, height: int) -> str:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return base64.b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + sizes).decode()


def as_shapes(data: str, mime: str = "image/png") -> list[dict[str, Any]]:
    """The same picture as every provider and LangChain version writes it."""
    return [
        {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}},
        {"type": "image_url", "image_url": f"data:{mime};base64,{data}"},
        {"type": "input_image", "image_url": f"data:{mime};base64,{data}"},
        {"type": "image", "base64": data, "mime_type": mime},
        {"type": "image", "source_type": "base64", "data": data, "mime_type": mime},
        {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}},
        {"image": {"format": "png", "source": {"bytes": base64.b64decode(data)}}},
    ]


def test_text_in_blocks_costs_what_text_alone_costs() -> None:
    assert COUNTER.message(human([{"type": "text", "text": "hello there"}])) == COUNTER.message(
        human("hello there")
    )
    assert COUNTER.message(human(["hello there"])) == COUNTER.message(human("hello there"))


def test_a_picture_costs_by_its_pixels_in_every_shape() -> None:
    costs = {cost(block) for block in as_shapes(png(600, 500))}
    assert costs == {400}


@pytest.mark.parametrize("data", [png(600, 500), jpeg(600, 500), gif(600, 500), webp(600, 500)])
def test_the_size_of_a_picture_is_read_from_its_header(data: str) -> None:
    assert cost({"type": "image", "base64": data, "mime_type": "image/x"}) == 400


def test_base64_is_never_counted_as_text() -> None:
    small, large = png(600, 500), png(600, 500, padding=3_000_000)
    assert {cost(block) for block in as_shapes(large)} == {cost(block) for block in as_shapes(small)}


def test_low_detail_costs_the_least_and_a_large_picture_has_a_limit() -> None:
    url = f"data:image/png;base64,{png(4000, 4000)}"
    low = cost({"type": "image_url", "image_url": {"url": url, "detail": "low"}})
    high = cost({"type": "image_url", "image_url": {"url": url, "detail": "high"}})
    assert (low, high) == (85, 1600)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "url": "https://example.com/cat.png"},
        {"type": "image", "file_id": "file-1"},
        {"type": "image", "base64": "!not base64!"},
        {"type": "image", "base64": base64.b64encode(b"\xff\xd8\xff").decode()},
        {"type": "image_url", "image_url": None},
    ],
)
def test_a_picture_of_unknown_size_costs_what_an_average_one_does(block: dict[str, Any]) -> None:
    assert cost(block) == 765


@pytest.mark.parametrize(
    ("kind", "mime"), [("audio", "audio/mp3"), ("video", "video/mp4"), ("file", "application/pdf")]
)
def test_files_cost_by_their_size_and_not_by_their_text(kind: str, mime: str) -> None:
    def block(size: int) -> dict[str, Any]:
        return {"type": kind, "base64": "A" * size, "mime_type": mime}

    assert cost(block(400_000)) < cost(block(4_000_000)) < 4_000_000 / 25


def test_a_text_file_costs_about_what_its_text_costs() -> None:
    text = "a plain sentence of several words. " * 100
    block = {"type": "file", "base64": base64.b64encode(text.encode()).decode(), "mime_type": "text/plain"}
    assert cost(block) == pytest.approx(COUNTER.text(text), rel=0.3)


def test_reasoning_counts_and_its_signature_does_not() -> None:
    thought = "the user wants the second file, so read it first"
    bare = COUNTER.message(ai([{"type": "thinking", "thinking": thought}]))
    signed = COUNTER.message(ai([{"type": "thinking", "thinking": thought, "signature": "A" * 5000}]))
    assert signed == bare >= COUNTER.text(thought)
    assert COUNTER.message(ai([{"type": "redacted_thinking", "data": "A" * 5000}])) < 100


def test_reasoning_beside_the_content_counts() -> None:
    assert COUNTER.message(ai("x", additional_kwargs={"reasoning_content": "word " * 100})) > 100


def test_a_tool_call_costs_its_name_and_arguments() -> None:
    text = "word " * 100
    message = ai("", tool_calls=[{"name": "write_file", "args": {"text": text}, "id": "c1"}])
    assert COUNTER.message(message) > COUNTER.text(text) + COUNTER.text("write_file")


def test_a_call_that_did_not_parse_costs_too() -> None:
    broken = {"name": "write", "args": "{" + "word " * 100, "id": "c1", "error": "no JSON"}
    assert COUNTER.message(ai("", invalid_tool_calls=[broken])) > 100


def test_a_call_that_also_stands_in_the_content_is_counted_once() -> None:
    args = {"text": "word " * 100}
    call = {"name": "write", "args": args, "id": "c1"}
    block = {"type": "tool_use", "id": "c1", "name": "write", "input": args}
    plain = COUNTER.message(ai("", tool_calls=[call]))
    assert COUNTER.message(ai([block], tool_calls=[call])) == plain
    assert COUNTER.message(ai([block])) == pytest.approx(plain, rel=0.2)


def test_a_call_in_the_providers_own_form_is_counted() -> None:
    raw = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": "word " * 100}}
    message = ai("").model_copy(update={"additional_kwargs": {"tool_calls": [raw]}})
    assert COUNTER.message(message) > 100


def test_what_a_tool_hands_to_the_program_is_not_sent_and_not_counted() -> None:
    assert COUNTER.message(result("c1", artifact={"rows": "x" * 9000})) == COUNTER.message(result("c1"))


def test_an_unknown_block_is_counted_as_it_is_written() -> None:
    block = {"type": "something_new", "payload": {"text": "word " * 100, "data": "A" * 9000}}
    assert 100 < cost(block) < 300


@pytest.mark.parametrize("block", [{1: 2}, {(1, 2): 3}, [1, 2], {"type": None}, {"type": ["x"]}, {}])
def test_a_strange_block_is_counted_and_does_not_fail(block: Any) -> None:
    message = human("").model_copy(update={"content": [block]})
    assert COUNTER.message(message) > BARE


def test_a_block_that_contains_itself_or_is_very_deep_does_not_fail() -> None:
    circle: dict[str, Any] = {"type": "x"}
    circle["self"] = circle
    deep: Any = "x"
    for _ in range(5000):
        deep = {"x": deep}
    for block in (circle, {"type": "x", "deep": deep}):
        assert COUNTER.message(human("").model_copy(update={"content": [block]})) >= BARE


@given(histories())
def test_a_history_costs_the_sum_of_its_messages(messages: list[BaseMessage]) -> None:
    assert COUNTER.messages(messages) == sum(COUNTER.message(message) for message in messages)
    assert all(COUNTER.message(message) > 0 for message in messages)
