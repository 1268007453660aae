"""Frames of a run: what becomes of its events, and of those of a second attempt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from app.errors import InvalidInput
from app.persistence.events import Event
from app.serialization import dumps
from app.services.thread_events.filter import CHANNELS, Subscription, check_channels
from app.services.thread_events.frames import (
    Ended,
    Frame,
    RunFrames,
    StreamedRun,
    first_seq,
    last_seq,
    position_of,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def made(answers: tuple[str, ...] = ()) -> RunFrames:
    return RunFrames(StreamedRun("run", 3, "agent", answers), lambda channel: True)


def event(seq: int, name: str, data: Any) -> Event:
    return Event(seq, name, dumps(data).decode(), AT)


def told(frames: list[Frame]) -> list[tuple[str, Any]]:
    return [(frame.method, orjson.loads(frame.data)) for frame in frames]


def chunk(text: str) -> list[Any]:
    return [{"type": "AIMessageChunk", "id": "m1", "content": text}, {"langgraph_node": "model"}]


def test_another_attempt_cuts_off_what_the_one_before_it_was_saying() -> None:
    run = made()
    list(run.frames(event(1, "metadata", {"attempt": 1})))
    list(run.frames(event(2, "messages", chunk("Hel"))))

    again = told(list(run.frames(event(3, "metadata", {"attempt": 2}))))

    assert [(method, data["event"], data["id"]) for method, data in again] == [("messages", "error", "m1")]


def test_an_interrupt_is_requested_once_however_often_it_is_told() -> None:
    run = made()
    asked = {"__interrupt__": [{"id": "i1", "value": "which?"}]}
    frames = [
        *run.frames(event(1, "updates", asked)),
        *run.frames(event(2, "values", {"messages": [], **asked})),
        *run.end(Ended("completed"), event(3, "end", None)),
    ]

    assert told(frames) == [
        ("input.requested", {"interrupt_id": "i1", "payload": "which?", "value": "which?"}),
        ("values", {"messages": []}),
        ("lifecycle", {"event": "interrupted", "graph_name": "agent"}),
    ]


def test_a_break_before_a_node_is_an_interruption_as_well() -> None:
    run = made()
    list(run.frames(event(1, "updates", {"__interrupt__": []})))

    [end] = told(list(run.end(Ended("completed"), event(2, "end", None))))

    assert end[1]["event"] == "interrupted"


def test_a_failed_run_says_why_and_takes_its_subgraphs_with_it() -> None:
    run = made()
    list(run.frames(event(1, "~lifecycle|tools:1", {"event": "started", "graph_name": "helper"})))

    frames = list(run.end(Ended("failed", "the moon is full"), event(2, "end", None)))

    assert [frame.namespace for frame in frames] == [("tools:1",), ()]
    assert told(frames)[1][1] == {"event": "failed", "graph_name": "agent", "error": "the moon is full"}


def test_numbers_do_not_depend_on_what_is_wanted() -> None:
    events = [
        event(1, "metadata", {"attempt": 1}),
        event(2, "messages", chunk("Hel")),
        event(3, "updates", {"model": {"a": 1}, "__interrupt__": [{"id": "i1", "value": 1}]}),
        event(4, "custom", {"type": "note"}),
    ]

    def numbers(channel: str) -> set[tuple[int, str]]:
        run = RunFrames(StreamedRun("run", 3, "agent"), lambda name: name == channel)
        frames = [frame for one in events for frame in run.frames(one)]
        frames += run.end(Ended("interrupted"), event(5, "end", None))
        return {(frame.seq, frame.event_id) for frame in frames if frame.channel in (channel, "lifecycle")}

    run = made()
    everything = [frame for one in events for frame in run.frames(one)]
    everything += run.end(Ended("interrupted"), event(5, "end", None))
    assert len({frame.seq for frame in everything}) == len(everything)
    for channel in CHANNELS:
        assert numbers(channel) <= {(frame.seq, frame.event_id) for frame in everything}


def test_numbers_say_which_run_they_are_of_and_fit_into_a_double() -> None:
    [running] = made().frames(event(1, "metadata", {"attempt": 1}))

    assert position_of(running.seq) == 3
    assert first_seq(3) < running.seq <= last_seq(3, 1) < first_seq(4)
    assert last_seq(2**27, 10**9) < 2**53


def test_a_frame_is_json_of_the_protocol() -> None:
    [frame] = made().frames(event(1, "custom|tools:1", {"type": "note", "text": "hi"}))

    assert orjson.loads(frame.json()) == {
        "type": "event",
        "event_id": "run:1.0.custom",
        "seq": frame.seq,
        "method": "custom",
        "params": {
            "namespace": ["tools:1"],
            "timestamp": int(AT.timestamp() * 1000),
            "data": {"name": "note", "payload": {"type": "note", "text": "hi"}},
        },
    }


def subscription(*channels: str, **narrowed: Any) -> Subscription:
    return Subscription(frozenset(channels), **narrowed)


def test_a_custom_event_is_found_by_its_name_and_among_all() -> None:
    [frame] = made().frames(event(1, "custom", {"type": "note"}))

    assert subscription("custom").wants(frame)
    assert subscription("custom:note").wants(frame)
    assert not subscription("custom:other").wants(frame)
    assert subscription("custom:note").has_channel("custom")


@pytest.mark.parametrize(
    ("namespaces", "depth", "wanted"),
    [
        (None, None, True),
        ((("tools",),), None, True),
        ((("tools:1",),), 0, False),
        ((("tools:1",),), 1, True),
        ((("tools:2",),), None, False),
        (((),), 1, False),
        (((),), 2, True),
        ((("tools:1", "model:2", "more"),), None, False),
    ],
)
def test_a_namespace_is_found_by_its_beginning(namespaces: Any, depth: int | None, wanted: bool) -> None:
    [frame] = made().frames(event(1, "values|tools:1|model:2", {}))

    assert subscription("values", namespaces=namespaces, depth=depth).wants(frame) is wanted


def test_a_channel_that_there_is_not_is_named() -> None:
    check_channels([*CHANNELS, "custom:mine"], "channels")
    for wrong in ("everything", "custom:", ""):
        with pytest.raises(InvalidInput, match="there is no channel"):
            check_channels([wrong], "channels")
