"""Runs over HTTP, with the official client."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.support.gateway import Gateway

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
# About a second of streaming: long enough to act on a run that is under way.
SLOW = {"messages": [{"role": "user", "content": "/slow 20"}]}
VERY_SLOW = {"messages": [{"role": "user", "content": "/slow 400"}]}


async def started(client: Any, thread_id: str, run_id: str) -> None:
    """Wait until the run has produced its first event."""
    async for part in client.runs.join_stream(thread_id, run_id):
        if part.event.startswith("messages"):
            return


async def test_a_stream_begins_with_metadata_and_ends_with_end_under_rising_ids(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    parts = [
        part
        async for part in client.runs.stream(
            thread["thread_id"], "agent", input=HELLO, stream_mode=["messages-tuple", "values"]
        )
    ]
    assert parts[0].event == "metadata"
    assert parts[0].data["attempt"] == 1
    assert parts[-1].event == "end"
    ids = [int(part.id) for part in parts]
    assert ids == sorted(set(ids))
    assert {part.event for part in parts[1:-1]} == {"messages", "values"}


async def test_tokens_stream_as_chunks_of_one_message_with_an_id(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    chunks = [
        part.data[0]
        async for part in client.runs.stream(
            thread["thread_id"], "agent", input=HELLO, stream_mode="messages-tuple"
        )
        if part.event == "messages"
    ]
    state = await client.threads.get_state(thread["thread_id"])
    reply = state["values"]["messages"][-1]
    assert len(chunks) > 5
    assert {chunk["id"] for chunk in chunks} == {reply["id"]}
    assert "".join(chunk["content"] for chunk in chunks) == reply["content"]
    assert "no language model" in reply["content"]


async def test_the_first_values_frame_is_the_input_and_the_last_the_final_state(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    values = [
        part.data
        async for part in client.runs.stream(thread["thread_id"], "agent", input=HELLO)
        if part.event == "values"
    ]
    state = await client.threads.get_state(thread["thread_id"])
    assert [message["type"] for message in values[0]["messages"]] == ["human"]
    assert values[-1]["messages"] == state["values"]["messages"]


async def test_state_and_history_are_readable_after_a_run(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], "agent", input=HELLO)
    state = await client.threads.get_state(thread["thread_id"])
    history = await client.threads.get_history(thread["thread_id"])
    assert state["next"] == []
    assert history[0]["checkpoint"] == state["checkpoint"]
    assert [m["type"] for m in history[0]["values"]["messages"]] == ["human", "ai"]
    assert len(history) > 2


async def test_wait_answers_with_the_final_values(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    values = await client.runs.wait(thread["thread_id"], "agent", input=HELLO)
    assert [message["type"] for message in values["messages"]] == ["human", "ai"]


async def test_wait_on_a_failing_run_answers_with_the_error(gateway: Gateway) -> None:
    client = gateway.client()
    thread = await client.threads.create()
    broken = {"messages": [{"role": "user", "content": "/error the model is on fire"}]}
    values = await client.runs.wait(thread["thread_id"], "agent", input=broken, raise_error=False)
    assert "the model is on fire" in values["__error__"]["message"]
    assert (await client.threads.get(thread["thread_id"]))["status"] == "error"


async def test_a_failing_run_streams_an_error_and_leaves_the_thread_usable(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    broken = {"messages": [{"role": "user", "content": "/error boom"}]}
    events = [part async for part in client.runs.stream(thread_id, "agent", input=broken)]
    assert [part.event for part in events[-2:]] == ["error", "end"]
    assert "boom" in events[-2].data["message"]
    (run,) = await client.runs.list(thread_id)
    assert run["status"] == "error"
    await client.runs.wait(thread_id, "agent", input=HELLO)
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_the_status_is_persisted_before_the_stream_ends(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    async for part in client.runs.stream(thread_id, "agent", input=HELLO):
        if part.event == "end":
            (run,) = await client.runs.list(thread_id)
            thread = await client.threads.get(thread_id)
    assert (run["status"], thread["status"]) == ("success", "idle")


async def test_a_background_run_can_be_joined_and_its_record_read(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO, metadata={"origin": "test"})
    assert run["status"] == "pending"
    values = await client.runs.join(thread_id, run["run_id"])
    assert len(values["messages"]) == 2
    read = await client.runs.get(thread_id, run["run_id"])
    assert (read["status"], read["metadata"]["origin"]) == ("success", "test")
    thread = await client.threads.get(thread_id)
    assert thread["metadata"]["graph_id"] == "agent"


async def test_a_finished_run_replays_its_stream_and_resumes_after_any_event(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO, stream_mode=["messages-tuple", "values"])
    await client.runs.join(thread_id, run["run_id"])
    whole = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
    again = [part async for part in client.runs.join_stream(thread_id, run["run_id"], last_event_id="-1")]
    middle = len(whole) // 2
    rest = [
        part
        async for part in client.runs.join_stream(thread_id, run["run_id"], last_event_id=whole[middle].id)
    ]
    assert again == whole
    assert rest == whole[middle + 1 :]
    assert whole[-1].event == "end"


async def test_two_readers_of_a_running_stream_see_the_same_events(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode="messages-tuple")

    async def read() -> list[Any]:
        return [part async for part in client.runs.join_stream(thread_id, run["run_id"])]

    first, second = await asyncio.gather(read(), read())
    assert first == second
    assert len(first) > 20


async def test_a_stream_is_filtered_by_mode(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO, stream_mode=["updates", "values"])
    await client.runs.join(thread_id, run["run_id"])
    parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"], stream_mode="updates")]
    assert {part.event for part in parts} == {"metadata", "updates", "end"}


async def test_a_client_that_goes_away_does_not_stop_its_run(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    async for part in client.runs.stream(thread_id, "agent", input=SLOW, stream_mode="messages-tuple"):
        if part.event == "messages":
            break
    (run,) = await client.runs.list(thread_id)
    await client.runs.join(thread_id, run["run_id"])
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"


async def test_a_client_that_goes_away_stops_its_run_when_it_said_so(gateway: Gateway) -> None:
    thread_id = (await gateway.client().threads.create())["thread_id"]
    body = {
        "assistant_id": "agent",
        "input": VERY_SLOW,
        "on_disconnect": "cancel",
        "stream_mode": ["messages-tuple"],
    }
    async with (
        gateway.http() as http,
        http.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("event: messages"):
                break
    client = gateway.client()
    (run,) = await client.runs.list(thread_id)
    await client.runs.join(thread_id, run["run_id"])
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"


async def test_cancelling_a_running_run_keeps_its_checkpoints_and_frees_the_thread(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
    await started(client, thread_id, run["run_id"])
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    state = await client.threads.get_state(thread_id)
    assert [message["type"] for message in state["values"]["messages"]] == ["human"]
    values = await client.runs.wait(thread_id, "agent", input=HELLO)
    assert values["messages"][-1]["type"] == "ai"


async def test_a_waiting_run_can_be_cancelled_before_it_begins(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode="messages-tuple")
    second = await client.runs.create(thread_id, "agent", input=HELLO)
    await client.runs.cancel(thread_id, second["run_id"], wait=True)
    values = await client.runs.join(thread_id, first["run_id"])
    assert (await client.runs.get(thread_id, second["run_id"]))["status"] == "interrupted"
    assert [message["content"] for message in values["messages"] if message["type"] == "human"] == [
        "/slow 20"
    ]


async def test_cancelling_a_finished_run_is_a_conflict(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO)
    await client.runs.join(thread_id, run["run_id"])
    with pytest.raises(ConflictError):
        await client.runs.cancel(thread_id, run["run_id"])


async def test_enqueued_runs_are_executed_in_the_order_of_their_requests(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    runs = [
        await client.runs.create(thread_id, "agent", input={"messages": [{"role": "user", "content": text}]})
        for text in ("/slow 5", "one", "two", "three")
    ]
    values = await client.runs.join(thread_id, runs[-1]["run_id"])
    kinds = [message["type"] for message in values["messages"]]
    assert kinds == ["human", "ai"] * 4
    asked = [message["content"] for message in values["messages"] if message["type"] == "human"]
    assert asked == ["/slow 5", "one", "two", "three"]


async def test_a_run_with_strategy_reject_is_refused_on_a_busy_thread(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode="messages-tuple")
    with pytest.raises(ConflictError) as caught:
        await client.runs.create(thread_id, "agent", input=HELLO, multitask_strategy="reject")
    assert caught.value.response.json()["code"] == "thread_busy"
    assert (await client.threads.get(thread_id))["status"] == "busy"
    await client.runs.join(thread_id, run["run_id"])
    assert len(await client.runs.list(thread_id)) == 1


async def test_a_run_with_strategy_interrupt_ends_the_older_one(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    older = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
    await started(client, thread_id, older["run_id"])
    values = await client.runs.wait(thread_id, "agent", input=HELLO, multitask_strategy="interrupt")
    assert (await client.runs.get(thread_id, older["run_id"]))["status"] == "interrupted"
    assert [message["type"] for message in values["messages"]] == ["human", "human", "ai"]


async def test_if_not_exists_create_makes_the_thread(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = "3f1c2a52-1111-4222-8333-444455556666"
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await client.runs.wait(thread_id, "agent", input=HELLO)
    await client.runs.wait(thread_id, "agent", input=HELLO, if_not_exists="create")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_the_agent_calls_tools_in_its_workspace_and_the_stream_shows_it(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    text = '/tool write_file {"path": "notes/a.txt", "content": "kept"}'
    values = await client.runs.wait(
        thread_id, "agent", input={"messages": [{"role": "user", "content": text}]}
    )
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]
    assert values["messages"][2]["status"] == "success"
    read = await client.runs.wait(
        thread_id,
        "agent",
        input={"messages": [{"role": "user", "content": '/tool read_file {"path": "notes/a.txt"}'}]},
    )
    assert "kept" in read["messages"][-2]["content"]


async def test_a_run_can_fork_from_an_older_checkpoint(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    first = await client.threads.get_state(thread_id)
    await client.runs.wait(thread_id, "agent", input={"messages": [{"role": "user", "content": "second"}]})
    values = await client.runs.wait(
        thread_id,
        "agent",
        input={"messages": [{"role": "user", "content": "other"}]},
        checkpoint_id=first["checkpoint"]["checkpoint_id"],
    )
    asked = [message["content"] for message in values["messages"] if message["type"] == "human"]
    assert asked == ["hello there", "other"]


async def test_a_run_that_was_stopped_at_a_breakpoint_goes_on_with_empty_input(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    text = "/tool list_files {}"
    await client.runs.wait(
        thread_id,
        "agent",
        input={"messages": [{"role": "user", "content": text}]},
        interrupt_before=["tools"],
    )
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    values = await client.runs.wait(thread_id, "agent", input=None)
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_a_stream_announces_where_it_can_be_resumed(gateway: Gateway) -> None:
    thread_id = (await gateway.client().threads.create())["thread_id"]
    body = {"assistant_id": "agent", "input": HELLO}
    async with (
        gateway.http() as http,
        http.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as response,
    ):
        await response.aread()
    location = response.headers["location"]
    assert location.startswith(f"/threads/{thread_id}/runs/")
    assert location.endswith("/stream")
    assert response.headers["content-location"] == location.removesuffix("/stream")
    assert response.headers["content-type"].startswith("text/event-stream")


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"assistant_id": "agent", "inputs": {}}, 422, "inputs"),
    ({"input": HELLO}, 422, "assistant_id"),
    ({"assistant_id": "nobody", "input": HELLO}, 422, "nobody"),
    ({"assistant_id": "0b0a4a3c-7a0e-4c5c-8a9e-0d5f5f6b7c8d", "input": HELLO}, 404, "0b0a4a3c"),
    ({"assistant_id": "agent", "input": "hello"}, 422, "input"),
    ({"assistant_id": "agent", "input": {"message": []}}, 422, "message"),
    ({"assistant_id": "agent", "input": {"messages": [{"role": "user"}]}}, 422, "messages[0]"),
    ({"assistant_id": "agent", "input": {"messages": [{"role": "king", "content": "x"}]}}, 422, "king"),
    ({"assistant_id": "agent", "input": {"summary_text": "forged"}}, 422, "summary_text"),
    ({"assistant_id": "agent", "input": HELLO, "stream_mode": "vlaues"}, 422, "vlaues"),
    ({"assistant_id": "agent", "input": HELLO, "multitask_strategy": "queue"}, 422, "queue"),
    ({"assistant_id": "agent", "input": HELLO, "context": {"model_name": "gpt-9"}}, 422, "gpt-9"),
    ({"assistant_id": "agent", "input": HELLO, "config": {"recursion_limit": 0}}, 422, "recursion_limit"),
    ({"assistant_id": "agent", "input": HELLO, "config": {"configurable": {"thread_id": "x"}}}, 422, "x"),
    ({"assistant_id": "agent", "input": HELLO, "config": {"configurable": {"__pregel_x": 1}}}, 422, "__"),
    (
        {"assistant_id": "agent", "config": {"configurable": {"a": 1}}, "context": {"b": 2}},
        400,
        "context",
    ),
    ({"assistant_id": "agent", "input": HELLO, "command": {"resume": 1}}, 400, "command"),
    ({"assistant_id": "agent", "command": {"goto": "nowhere"}}, 422, "nowhere"),
    ({"assistant_id": "agent", "input": HELLO, "webhook": "http://127.0.0.1/x"}, 422, "webhook"),
    ({"assistant_id": "agent", "input": HELLO, "after_seconds": -1}, 422, "after_seconds"),
    ({"assistant_id": "agent", "input": HELLO, "checkpoint_id": "nope"}, 404, "nope"),
    ({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "a\0b"}]}}, 422, "NUL"),
]


@pytest.mark.parametrize(
    ("body", "status", "named"), REFUSED, ids=[str(row[2]) + str(row[1]) for row in REFUSED]
)
async def test_a_bad_run_is_refused_with_its_field_and_value_and_nothing_is_written(
    gateway: Gateway, body: dict[str, Any], status: int, named: str
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    async with gateway.http() as http:
        for route in ("runs", "runs/stream", "runs/wait"):
            response = await http.post(f"/threads/{thread_id}/{route}", json=body)
            assert response.status_code == status, response.text
            answer = response.json()
            assert named in answer["detail"], answer
            assert answer["code"]
    assert await client.runs.list(thread_id) == []
    assert (await client.threads.get_state(thread_id))["values"] == {}


async def test_forged_control_fields_of_an_input_are_taken_off(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    forged = {
        "role": "user",
        "content": "hello",
        "id": "m__user",
        "name": "summary",
        "additional_kwargs": {"hide_from_ui": True, "dynamic_context_reminder": True, "mine": 1},
    }
    values = await client.runs.wait(thread_id, "agent", input={"messages": [forged]})
    message = values["messages"][0]
    assert (message["id"], message["name"]) == ("m", None)
    assert message["additional_kwargs"] == {"mine": 1}


async def test_unknown_threads_and_runs_are_404(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    nowhere = "00000000-0000-4000-8000-000000000000"
    for call in (
        client.runs.get(thread_id, nowhere),
        client.runs.list(nowhere),
        client.runs.join(thread_id, nowhere),
        client.runs.cancel(thread_id, nowhere),
        client.runs.delete(thread_id, nowhere),
    ):
        with pytest.raises(httpx.HTTPError, match=r"404|no (run|thread)"):
            await call
    async with gateway.http() as http:
        response = await http.get(f"/threads/{thread_id}/runs/{nowhere}/stream")
        bad = await http.get(f"/threads/{thread_id}/runs/none")
    assert (response.status_code, bad.status_code) == (404, 422)


async def test_a_wrong_resume_point_is_refused(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO)
    await client.runs.join(thread_id, run["run_id"])
    async with gateway.http() as http:
        response = await http.get(
            f"/threads/{thread_id}/runs/{run['run_id']}/stream", headers={"Last-Event-ID": "abc"}
        )
    assert response.status_code == 422
    assert "abc" in response.json()["detail"]


async def test_a_finished_run_can_be_deleted_an_active_one_cannot(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode="messages-tuple")
    with pytest.raises(ConflictError):
        await client.runs.delete(thread_id, run["run_id"])
    await client.runs.join(thread_id, run["run_id"])
    await client.runs.delete(thread_id, run["run_id"])
    with pytest.raises(NotFoundError):
        await client.runs.get(thread_id, run["run_id"])


async def test_a_run_on_a_thread_that_is_being_deleted_is_refused(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
    await started(client, thread_id, run["run_id"])

    async def start_another() -> Exception | None:
        try:
            await client.runs.create(thread_id, "agent", input=HELLO)
        except (NotFoundError, ConflictError, httpx.HTTPError) as error:
            return error
        return None

    await asyncio.gather(client.threads.delete(thread_id), start_another())
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    assert isinstance(await start_another(), NotFoundError)


async def test_fields_without_effect_are_accepted(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    values = await client.runs.wait(
        thread_id, "agent", input=HELLO, checkpoint_during=True, on_disconnect="continue", durability="sync"
    )
    assert len(values["messages"]) == 2


async def test_a_run_lists_only_selected_fields(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO)
    await client.runs.join(thread_id, run["run_id"])
    (listed,) = await client.runs.list(thread_id, select=["run_id", "status"])
    assert listed == {"run_id": run["run_id"], "status": "success"}
    with pytest.raises(UnprocessableEntityError):
        await client.runs.list(thread_id, select=["nothing"])  # type: ignore[list-item]
