"""What clients cannot forge (rule H3)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage

from app.errors import InvalidInput
from app.services.threads.sanitize import CONTROL_CHANNELS, FLAGS, read_values, strip_flags

NOTHING: frozenset[str] = frozenset()


def written(*messages: Any, known: frozenset[str] = NOTHING) -> list[BaseMessage]:
    read: list[BaseMessage] = read_values({"messages": list(messages)}, known, "values")["messages"]
    return read


@pytest.mark.parametrize("flag", sorted(FLAGS))
@pytest.mark.parametrize(
    "place",
    [
        lambda flag: {"additional_kwargs": {flag: True, "kept": 1}},
        lambda flag: {"response_metadata": {flag: True}},
        lambda flag: {flag: True},
        lambda flag: {"artifact": {flag: {"path": "x"}, "rows": 1}},
    ],
    ids=["additional_kwargs", "response_metadata", "top level", "artifact"],
)
def test_a_flag_is_taken_off_wherever_it_stands(flag: str, place: Any) -> None:
    [message] = written({"type": "tool", "content": "x", "tool_call_id": "c", **place(flag)})
    assert isinstance(message, ToolMessage)
    assert flag not in str(message.model_dump())
    assert message.content == "x"


def test_everything_else_stays() -> None:
    [message] = written(
        {
            "type": "human",
            "content": "x",
            "id": "h",
            "name": "ann",
            "additional_kwargs": {"hide_from_ui": True, "kept": 1},
        }
    )
    assert message.additional_kwargs == {"kept": 1}
    assert (message.id, message.name) == ("h", "ann")


def test_the_name_of_a_summary_is_taken_off() -> None:
    [message] = written({"type": "human", "content": "x", "name": "summary"})
    assert message.name is None


@pytest.mark.parametrize("given", ["m__user", "m__memory", "m__user__memory__user"])
def test_a_suffix_of_ours_is_taken_off(given: str) -> None:
    [message] = written({"type": "human", "content": "x", "id": given})
    assert message.id == "m"


def test_a_suffix_stays_where_the_thread_has_that_id() -> None:
    [message] = written({"type": "human", "content": "x", "id": "m__user"}, known=frozenset({"m__user"}))
    assert message.id == "m__user"


def test_what_is_remembered_of_a_person_cannot_be_rewritten_in_the_thread() -> None:
    sent_back = [{"type": "human", "content": "hi", "id": i} for i in ("m__memory", "m__user")]
    kept = written(*sent_back, known=frozenset({"m", "m__memory", "m__user"}))
    assert [message.id for message in kept] == ["m__user"]


def test_an_id_without_its_suffix_replaces_no_other_message() -> None:
    import_once = written(
        {"type": "system", "content": "today", "id": "m"}, {"type": "human", "content": "hi", "id": "m__user"}
    )
    import_again = written({"type": "human", "content": "hi", "id": "m__user"}, known=frozenset({"m"}))
    assert import_once[0].id == "m"
    assert import_once[1].id not in ("m", "m__user")
    assert import_again[0].id == import_once[1].id


def test_two_suffixed_ids_of_one_stem_stay_two_messages() -> None:
    first, second = written(
        {"type": "human", "content": "a", "id": "m__user"},
        {"type": "human", "content": "b", "id": "m__memory"},
    )
    assert first.id != second.id


def test_an_id_that_is_only_a_suffix_becomes_some_id() -> None:
    [message] = written({"type": "human", "content": "x", "id": "__user"})
    assert message.id
    assert not message.id.endswith("__user")


def test_a_removal_is_left_as_it_is() -> None:
    [removal] = written({"type": "remove", "id": "m__user"})
    assert removal == RemoveMessage(id="m__user")


@pytest.mark.parametrize("channel", sorted(CONTROL_CHANNELS))
def test_a_control_channel_is_refused_by_name(channel: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^values\.{channel}: "):
        read_values({channel: "x"}, NOTHING, "values")


def test_flags_are_taken_off_other_values_at_any_depth() -> None:
    value = {"answers": [{"hide_from_ui": True, "text": "yes"}], "n": 1}
    assert strip_flags(value) == {"answers": [{"text": "yes"}], "n": 1}
    assert read_values({"notes": value}, NOTHING, "values") == {"notes": strip_flags(value)}


def test_a_wrong_message_is_refused_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"^input\.messages\[1\]\.content: "):
        read_values({"messages": ["fine", {"type": "human", "content": 5}]}, NOTHING, "input")
