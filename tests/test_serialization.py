"""JSON of whatever a graph can hold."""

from __future__ import annotations

import json
import math
from collections import deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, Send, interrupt
from pydantic import BaseModel, SecretStr

from app.serialization import (
    checkpoint_to_json,
    dumps,
    dumps_jsonb,
    error_to_json,
    show,
    state_to_json,
)


class Colour(Enum):
    RED = "red"


class TextColour(StrEnum):
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    label: object = None


class Model(BaseModel):
    name: str
    secret: SecretStr = SecretStr("hidden")


class Stubborn:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


Pair = namedtuple("Pair", ["left", "right"])


def back(value: Any) -> Any:
    return json.loads(dumps(value))


def test_a_message_is_flat_with_every_field_clients_read() -> None:
    message = AIMessage(
        content="done",
        id="m1",
        tool_calls=[{"name": "read", "args": {"path": "a", "line": None}, "id": "c1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    shown = back(message)
    assert shown["type"] == "ai"
    assert shown["content"] == "done"
    assert shown["tool_calls"][0]["args"] == {"path": "a", "line": None}
    assert shown["usage_metadata"]["total_tokens"] == 3
    assert {"name", "additional_kwargs", "response_metadata", "invalid_tool_calls"} <= shown.keys()


def test_tool_results_and_chunks_keep_their_own_fields() -> None:
    assert back(ToolMessage("42", tool_call_id="c1", status="error"))["status"] == "error"
    assert back(AIMessageChunk(content="par", id="m1"))["type"] == "AIMessageChunk"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Point(1, label={2}), {"x": 1, "label": [2]}),
        (Pair(1, [2]), {"left": 1, "right": [2]}),
        (Model(name="m"), {"name": "m", "secret": "**********"}),
        (Colour.RED, "red"),
        (TextColour.BLUE, "blue"),
        (b"\x00\xff", "AP8="),
        (deque([1, 2]), [1, 2]),
        (frozenset({1}), [1]),
        (Decimal("1.50"), "1.50"),
        (timedelta(minutes=2), 120.0),
        (datetime(2025, 1, 2, tzinfo=UTC), "2025-01-02T00:00:00+00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a/b"), "a/b"),
        (ValueError("bad"), {"error": "ValueError", "message": "bad"}),
        (Interrupt("Sure?", id="i1"), {"value": "Sure?", "id": "i1"}),
        (Send("node", {"a": 1}), {"node": "node", "arg": {"a": 1}}),
        (Command(resume="yes"), {"resume": "yes"}),
        (Command(goto=[Send("n", 1)]), {"goto": [{"node": "n", "arg": 1}]}),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        ({(1, 2): "a"}, {"(1, 2)": "a"}),
        ([math.nan, math.inf, 1.5], [None, None, 1.5]),
        (2**80, 2**80),
        (Point, "tests.test_serialization.Point"),
    ],
    ids=repr,
)
def test_odd_values_have_a_json_form(value: object, expected: object) -> None:
    assert back(value) == expected


def test_an_object_that_cannot_describe_itself_does_not_break_the_answer() -> None:
    assert back({"a": Stubborn(), "b": 1})["b"] == 1
    assert "Stubborn" in back(Stubborn())


def test_half_a_surrogate_pair_of_a_model_becomes_a_replacement_and_whole_pairs_are_joined() -> None:
    assert back({"te\ud83dxt": ["\ud83d\ude00", "half \ud83d"]}) == {"te\ufffdxt": ["😀", "half \ufffd"]}


def test_a_message_with_half_a_surrogate_pair_still_comes_out_whole() -> None:
    shown = back([HumanMessage("a\ud83d", id="h1"), Point(2**70, label=b"x"), Colour.RED])
    assert shown[0]["content"] == "a\ufffd"
    assert shown[0]["id"] == "h1"
    assert shown[1:] == [{"x": 2**70, "label": "eA=="}, "red"]


def test_cycles_and_very_deep_values_end_somewhere() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert b"\xe2\x80\xa6" in dumps(cycle)
    deep: Any = "bottom"
    for _ in range(2000):
        deep = [deep]
    assert dumps(deep).startswith(b"[[[[")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_what_is_json_already_is_left_as_it_is(value: object) -> None:
    assert back(value) == value


@given(st.recursive(st.text(st.characters(codec=None)) | st.binary(), lambda inner: st.lists(inner)))
def test_any_text_and_bytes_make_valid_utf8_json(value: object) -> None:
    assert json.loads(dumps(value).decode("utf-8")) is not None


@given(st.text(st.sampled_from(list('\0\\u0"a\n'))))
def test_jsonb_text_never_holds_the_null_character_and_keeps_everything_else(text: str) -> None:
    assert json.loads(dumps_jsonb({text: [text]})) == {
        text.replace("\0", "\ufffd"): [text.replace("\0", "\ufffd")]
    }


def test_a_shown_value_is_short() -> None:
    assert show({"a": 5}) == '{"a":5}'
    assert show("x" * 500, limit=10) == '"xxxxxxxxx…'


def test_an_error_shows_its_class_and_its_sentence() -> None:
    assert error_to_json(KeyError("x")) == {"error": "KeyError", "message": "'x'"}
    assert error_to_json("just a text") == {"error": "Error", "message": "just a text"}


def test_a_config_without_checkpoint_names_none() -> None:
    assert checkpoint_to_json(None) is None
    assert checkpoint_to_json({"configurable": {"thread_id": "t"}}) is None


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def graph_of(node: Callable[[State], Any]) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=InMemorySaver())


def ask(state: State) -> Any:
    return {"messages": [("ai", interrupt({"question": "Sure?"}))]}


def fail(state: State) -> Any:
    raise LookupError("nothing there")


def test_the_state_of_a_thread_without_runs_is_empty_and_has_no_checkpoint() -> None:
    state = state_to_json(graph_of(ask).get_state({"configurable": {"thread_id": "t"}}))
    assert state == {
        "values": {},
        "next": [],
        "tasks": [],
        "metadata": {},
        "created_at": None,
        "checkpoint": None,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }


def test_the_state_of_an_interrupted_thread_shows_who_waits_for_what() -> None:
    graph, config = graph_of(ask), {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", "go")]}, config)
    state = back(state_to_json(graph.get_state(config)))
    assert state["next"] == ["ask"]
    assert state["interrupts"][0]["value"] == {"question": "Sure?"}
    task = state["tasks"][0]
    assert task["name"] == "ask"
    assert task["error"] is None
    assert task["interrupts"] == state["interrupts"]
    assert state["checkpoint"] == {
        "thread_id": "t",
        "checkpoint_ns": "",
        "checkpoint_id": state["checkpoint_id"],
    }
    assert state["parent_checkpoint"]["checkpoint_id"] == state["parent_checkpoint_id"]
    assert state["values"]["messages"][0]["content"] == "go"
    assert "counters_since_delta_snapshot" not in state["metadata"]


def test_the_state_of_a_failed_step_says_what_failed() -> None:
    graph, config = graph_of(fail), {"configurable": {"thread_id": "t"}}
    with pytest.raises(LookupError):
        graph.invoke({"messages": []}, config)
    error = back(state_to_json(graph.get_state(config)))["tasks"][0]["error"]
    assert "LookupError" in error
    assert "nothing there" in error


def test_the_state_of_a_subgraph_is_nested_in_its_task() -> None:
    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer = StateGraph(State)
    outer.add_node("child", inner.compile())
    outer.add_edge(START, "child")
    graph, config = outer.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", "go")]}, config)

    task = back(state_to_json(graph.get_state(config)))["tasks"][0]
    assert task["checkpoint"]["checkpoint_ns"].startswith("child:")
    assert task["state"] is None
    nested = back(state_to_json(graph.get_state(config, subgraphs=True)))["tasks"][0]
    assert nested["state"]["next"] == ["ask"]
    assert nested["checkpoint"] is None
