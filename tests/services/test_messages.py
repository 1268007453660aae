"""Messages as clients send them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from app.errors import InvalidInput
from app.serialization import dumps
from app.services.threads.messages import read_messages

CALL = {"name": "read", "args": {"path": "a", "line": None}, "id": "c1", "type": "tool_call"}
CONVERSATION: list[BaseMessage] = [
    SystemMessage("be kind", id="s1"),
    HumanMessage([{"type": "text", "text": "hi"}], id="h1", name="ann"),
    AIMessage(
        "",
        id="a1",
        tool_calls=[CALL],
        usage_metadata={"input_tokens": 5, "output_tokens": 1, "total_tokens": 6},
        additional_kwargs={"reasoning_content": "hm"},
        response_metadata={"model": "m"},
    ),
    ToolMessage("42", id="t1", tool_call_id="c1", name="read", status="error", artifact={"rows": [1]}),
]


def one(raw: Any) -> BaseMessage:
    [message] = read_messages([raw], "values.messages")
    return message


@pytest.mark.parametrize("form", ["flat", "data", "constructor"])
def test_every_form_in_which_langchain_writes_messages_is_read_back_whole(form: str) -> None:
    written = {
        "flat": [orjson.loads(dumps(message)) for message in CONVERSATION],
        "data": messages_to_dict(CONVERSATION),
        "constructor": [dumpd(message) for message in CONVERSATION],
    }[form]
    assert read_messages(written, "values.messages") == CONVERSATION


@pytest.mark.parametrize(
    ("raw", "cls"),
    [
        ({"role": "user", "content": "x"}, HumanMessage),
        ({"role": "assistant", "content": "x"}, AIMessage),
        ({"role": "developer", "content": "x"}, SystemMessage),
        ({"role": "tool", "content": "x", "tool_call_id": "c"}, ToolMessage),
        ({"type": "function", "name": "f", "content": "x"}, FunctionMessage),
        ({"type": "AIMessageChunk", "content": "x", "tool_call_chunks": []}, AIMessage),
        ({"type": "HumanMessage", "content": "x"}, HumanMessage),
        (["system", "x"], SystemMessage),
        ("x", HumanMessage),
    ],
)
def test_every_name_of_a_role_is_understood(raw: Any, cls: type[BaseMessage]) -> None:
    message = one(raw)
    assert type(message) is cls
    assert message.content == "x"


def test_a_message_without_an_id_gets_one_of_its_own() -> None:
    first, second = read_messages(["a", {"role": "user", "content": "b", "id": ""}], "values.messages")
    assert first.id
    assert second.id
    assert first.id != second.id


def test_a_single_message_is_a_list_of_one() -> None:
    assert [message.content for message in read_messages({"role": "user", "content": "x"}, "m")] == ["x"]


def test_a_tool_call_in_the_form_of_openai_is_understood() -> None:
    message = one(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ],
        }
    )
    assert isinstance(message, AIMessage)
    assert message.content == ""
    assert message.tool_calls == [{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}]


def test_an_unknown_field_becomes_an_additional_one_as_in_langchain() -> None:
    message = one({"type": "human", "content": "x", "mood": "good", "example": False})
    assert message.additional_kwargs == {"mood": "good"}


def test_removals_are_read_and_an_overwrite_is_the_removal_of_everything() -> None:
    assert one({"type": "remove", "id": "m1"}) == RemoveMessage(id="m1")
    first, second = read_messages({"__overwrite__": ["x"]}, "values.messages")
    assert first.id == REMOVE_ALL_MESSAGES
    assert second.content == "x"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (5, "values.messages[0]: must be a message, got 5"),
        (["a", "b", "c"], 'values.messages[0]: must be a message, got ["a","b","c"]'),
        ({"content": "x"}, "values.messages[0].type: a message needs a type or a role"),
        ({"type": "alien", "content": "x"}, "values.messages[0].type: must be one of human, user, ai"),
        ({"type": ["ai"], "content": "x"}, "values.messages[0].type: must be one of"),
        ({"type": "human", "content": 5}, "values.messages[0].content: must be a string or a list"),
        ({"type": "human", "content": [5]}, "values.messages[0].content: must be a string or a list"),
        ({"type": "human"}, "values.messages[0].content: this field is required"),
        ({"type": "human", "data": {"content": 5}}, "values.messages[0].data.content: must be"),
        ({"type": "human", "id": 5, "content": "x"}, "values.messages[0].id: Input should be a valid string"),
        (
            {"type": "human", "id": "x" * 300, "content": "x"},
            "values.messages[0].id: String should have at most",
        ),
        ({"type": "human", "name": 5, "content": "x"}, "values.messages[0].name:"),
        ({"type": "human", "content": "x", "additional_kwargs": []}, "values.messages[0].additional_kwargs:"),
        ({"type": "tool", "content": "x"}, "values.messages[0].tool_call_id: this field is required"),
        (
            {"type": "tool", "content": "x", "tool_call_id": "c", "status": "odd"},
            "values.messages[0].status:",
        ),
        (
            {"type": "ai", "content": "", "tool_calls": [5]},
            "values.messages[0].tool_calls[0]: must be an object",
        ),
        ({"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": "x"}]}, ".tool_calls[0].args:"),
        (
            {
                "type": "ai",
                "content": "",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}],
            },
            "values.messages[0].tool_calls[0]: function.arguments must be JSON",
        ),
        (
            {"type": "ai", "content": "", "usage_metadata": {"input_tokens": "x"}},
            ".usage_metadata.input_tokens:",
        ),
        ({"type": "function", "content": "x"}, "values.messages[0].name: this field is required"),
        ({"type": "remove"}, "values.messages[0].id: this field is required"),
    ],
)
def test_what_is_no_message_is_refused_by_its_path_and_its_value(raw: Any, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        one(raw)
    assert problem in refused.value.detail
    assert len(refused.value.detail) < 500
