"""Messages of thread streams: the events that LangChain itself makes of the same chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from langchain_core.language_models._compat_bridge import chunks_to_events, message_to_events
from langchain_core.language_models.chat_model_stream import ChatModelStream
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from app.serialization import dumps
from app.services.thread_events.messages import MessageBlocks

USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
CALL = {"name": "look", "args": "", "id": "c1", "index": 0}


def chunk(content: Any = "", **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, id="m1", **fields)


def recorded(message: BaseMessage) -> dict[str, Any]:
    """As a run keeps it."""
    kept: dict[str, Any] = orjson.loads(dumps(message))
    return kept


def ours(messages: Sequence[BaseMessage], blocks: MessageBlocks | None = None) -> list[dict[str, Any]]:
    made = [event for message in messages for event in (blocks or MessageBlocks()).add(recorded(message))]
    return [{name: value for name, value in event.items() if name != "run_id"} for event in made]


def stream(*chunks: AIMessageChunk) -> list[dict[str, Any]]:
    return ours(chunks, MessageBlocks())


LAST = chunk(chunk_position="last", response_metadata={"finish_reason": "stop"}, usage_metadata=USAGE)

STREAMS = {
    "text": [chunk("Hel"), chunk("lo"), LAST],
    "nothing": [LAST],
    "a tool call": [
        chunk("I look."),
        chunk(tool_call_chunks=[tool_call_chunk(**CALL)]),
        chunk(tool_call_chunks=[tool_call_chunk(name=None, args='{"at": ', id=None, index=0)]),
        chunk(tool_call_chunks=[tool_call_chunk(name=None, args='"it"}', id=None, index=0)]),
        LAST,
    ],
    "two tool calls side by side": [
        chunk(tool_call_chunks=[tool_call_chunk(**CALL)]),
        chunk(tool_call_chunks=[tool_call_chunk(**{**CALL, "id": "c2", "index": 1})]),
        chunk(tool_call_chunks=[tool_call_chunk(name=None, args="{}", id=None, index=1)]),
        chunk(tool_call_chunks=[tool_call_chunk(name=None, args="{}", id=None, index=0)]),
        LAST,
    ],
    "blocks": [
        chunk([{"type": "reasoning", "reasoning": "Hm", "index": 0}]),
        chunk([{"type": "reasoning", "reasoning": "m.", "index": 0}]),
        chunk([{"type": "text", "text": "So", "index": 1}]),
        chunk([{"type": "text", "text": ".", "index": 1}]),
        LAST,
    ],
}


@pytest.mark.parametrize("chunks", STREAMS.values(), ids=STREAMS)
def test_a_stream_of_chunks_becomes_what_langchain_makes_of_it(chunks: list[AIMessageChunk]) -> None:
    theirs = chunks_to_events(ChatGenerationChunk(message=one) for one in chunks)

    assert stream(*chunks) == [{**event, "id": "m1"} for event in theirs]


@pytest.mark.parametrize("chunks", STREAMS.values(), ids=STREAMS)
def test_clients_put_the_same_message_together_from_it(chunks: list[AIMessageChunk]) -> None:
    read = ChatModelStream(namespace=[], node=None, message_id="m1")
    for event in stream(*chunks):
        read.dispatch(event)
    whole = sum(chunks[1:], chunks[0])

    assert read.output_message is not None
    assert read.output_message.text == whole.text
    assert read.output_message.tool_calls == whole.tool_calls
    assert read.output_message.usage_metadata == whole.usage_metadata


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("Whole.", id="m1", usage_metadata=USAGE),
        AIMessage("", id="m1", tool_calls=[{"name": "look", "args": {"at": "it"}, "id": "c1"}]),
        AIMessage([{"type": "reasoning", "reasoning": "Hm"}, {"type": "text", "text": "So"}], id="m1"),
    ],
    ids=["text", "tool call", "blocks"],
)
def test_a_message_that_was_not_streamed_becomes_what_langchain_makes_of_it(message: AIMessage) -> None:
    theirs = message_to_events(message, message_id="m1")

    assert ours([message]) == [{**event, "id": "m1"} for event in theirs]


def test_arguments_that_are_no_json_are_an_invalid_call() -> None:
    broken = chunk(tool_call_chunks=[tool_call_chunk(name="look", args='{"at', id="c1", index=0)])

    [finished] = [e["content"] for e in stream(broken, LAST) if e["event"] == "content-block-finish"]

    assert (finished["type"], finished["name"], finished["args"]) == ("invalid_tool_call", "look", '{"at')


def test_a_message_is_told_once_although_it_comes_whole_after_its_chunks() -> None:
    blocks = MessageBlocks()

    assert ours([chunk("Hello"), LAST], blocks)
    assert ours([AIMessage("Hello", id="m1")], blocks) == []


def test_what_people_say_has_their_role_and_results_of_tools_are_none_of_it() -> None:
    [begin, *_] = ours([HumanMessage("Hi", id="h1")])

    assert (begin["event"], begin["role"]) == ("message-start", "human")
    assert ours([ToolMessage("result", tool_call_id="c1", id="t1")]) == []


def test_messages_side_by_side_are_told_apart() -> None:
    blocks = MessageBlocks()
    made = ours(
        [chunk("one"), AIMessageChunk("two", id="m2"), chunk(" more")],
        blocks,
    )

    assert [(event["id"], event["event"]) for event in made if "delta" in event["event"]] == [
        ("m1", "content-block-delta"),
        ("m2", "content-block-delta"),
        ("m1", "content-block-delta"),
    ]


def test_a_message_that_is_cut_off_ends_with_an_error_and_one_that_is_complete_without() -> None:
    for error, last in (("gone", "error"), (None, "message-finish")):
        blocks = MessageBlocks()
        ours([chunk("Hel")], blocks)

        assert blocks.close(error)[-1]["event"] == last
        assert blocks.close(error) == []
