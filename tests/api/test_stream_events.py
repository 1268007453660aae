"""Stream mode ``events``: LangChain's own events of a run, beside the other modes."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from tests.support.gateway import Gateway

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}


async def streamed(gateway: Gateway, modes: Any, text: str = "hello there", **options: Any) -> list[Any]:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    question = {"messages": [{"role": "user", "content": text}]}
    return [
        part
        async for part in client.runs.stream(thread_id, "agent", input=question, stream_mode=modes, **options)
    ]


async def test_events_tell_of_the_graph_its_nodes_and_the_model(gateway: Gateway) -> None:
    parts = await streamed(gateway, "events")
    assert {part.event for part in parts} == {"metadata", "events", "end"}
    events = [part.data for part in parts if part.event == "events"]
    assert (events[0]["event"], events[-1]["event"]) == ("on_chain_start", "on_chain_end")
    assert events[0]["run_id"] == events[-1]["run_id"] == parts[0].data["run_id"]
    assert all(event.keys() >= {"event", "name", "run_id", "data", "metadata", "tags"} for event in events)
    tokens = [e["data"]["chunk"]["content"] for e in events if e["event"] == "on_chat_model_stream"]
    reply = events[-1]["data"]["output"]["messages"][-1]
    assert "".join(tokens) == reply["content"]


async def test_other_modes_are_as_they_are_without_events(gateway: Gateway) -> None:
    """Also of tools and of a run that fails."""
    for text in ("/tool list_files {}", "/error boom"):
        both = await streamed(gateway, ["values", "messages-tuple", "events", "updates"], text)
        alone = await streamed(gateway, ["values", "messages-tuple", "updates"], text)
        others = [part.event for part in both if part.event != "events"]
        assert others == [part.event for part in alone]
        assert both[-1].event == "end"


async def test_a_stream_is_filtered_to_its_events(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    modes: Any = ["events", "values"]
    run = await client.runs.create(thread_id, "agent", input=HELLO, stream_mode=modes)
    await client.runs.join(thread_id, run["run_id"])
    parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"], stream_mode="events")]
    assert {part.event for part in parts} == {"metadata", "events", "end"}


async def test_every_form_of_a_list_of_modes_is_understood(gateway: Gateway) -> None:
    async with gateway.http() as http:
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        for given, kept in (
            ("updates", ["updates"]),
            ('["updates", "custom"]', ["updates", "custom"]),
            (["updates", "custom"], ["updates", "custom"]),
            (['["updates"]'], ["updates"]),
            (None, ["values"]),
            ([], ["values"]),
        ):
            body = {"assistant_id": "agent", "input": HELLO, "stream_mode": given}
            run = (await http.post(f"/threads/{thread_id}/runs", json=body)).json()
            assert run["kwargs"]["stream_modes"] == kept, given
    with pytest.raises(UnprocessableEntityError):
        await streamed(gateway, "nothing")
