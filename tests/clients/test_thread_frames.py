"""Thread streams (v2) on the wire: order, resuming, filters, commands, and both transports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.clients.conftest import SECTIONS
from tests.support.gateway import Gateway, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom"]
QUESTION = '/tool ask_clarification {"question": "Which colour?"}'
Frame = dict[str, Any]


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def command(http: httpx.AsyncClient, thread_id: str, method: str, **params: Any) -> dict[str, Any]:
    answer = await http.post(
        f"/threads/{thread_id}/commands", json={"id": 7, "method": method, "params": params}
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert body["id"] == 7
    return body


async def start(http: httpx.AsyncClient, thread_id: str, text: str, **params: Any) -> dict[str, Any]:
    answer = await command(http, thread_id, "run.start", assistant_id="agent", input=human(text), **params)
    assert answer["type"] == "success", answer
    return answer


@asynccontextmanager
async def frames(
    http: httpx.AsyncClient, thread_id: str, **wanted: Any
) -> AsyncIterator[AsyncIterator[Frame]]:
    """The frames of a stream, as they come."""
    body = {"channels": ALL, **wanted}
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield _frames(answer)


async def _frames(answer: httpx.Response) -> AsyncIterator[Frame]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def is_end(frame: Frame) -> bool:
    data = frame["params"]["data"]
    return (
        frame["method"] == "lifecycle"
        and not frame["params"]["namespace"]
        and data["event"] in ("completed", "failed", "interrupted")
    )


async def until_end(stream: AsyncIterator[Frame], seconds: float = 20) -> list[Frame]:
    """The frames up to the end of a run."""
    read: list[Frame] = []
    async with asyncio.timeout(seconds):
        while not read or not is_end(read[-1]):
            read.append(await anext(stream))
    return read


async def whole(http: httpx.AsyncClient, thread_id: str, **wanted: Any) -> list[Frame]:
    async with frames(http, thread_id, **wanted) as stream:
        return await until_end(stream)


async def test_frames_have_ids_of_their_own_and_numbers_that_grow_across_runs(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, "one")
        async with frames(http, thread_id) as stream:
            first = await until_end(stream)
            await start(http, thread_id, "/tool list_files {}")
            second = await until_end(stream)

    read = first + second
    numbers = [frame["seq"] for frame in read]
    assert numbers == sorted(set(numbers)) and numbers[-1] < 2**53
    assert len({frame["event_id"] for frame in read}) == len(read)
    assert [frame["params"]["data"]["event"] for frame in read if frame["method"] == "lifecycle"] == [
        "running",
        "completed",
        "running",
        "completed",
    ]


async def test_a_checkpoint_comes_before_its_values(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, "one")
        read = await whole(http, thread_id, channels=["values", "checkpoints", "lifecycle"])
        history = (await http.get(f"/threads/{thread_id}/history")).json()

    methods = [frame["method"] for frame in read]
    assert all(methods[i - 1] == "checkpoints" for i, method in enumerate(methods) if method == "values")
    told = [frame["params"]["data"]["id"] for frame in read if frame["method"] == "checkpoints"]
    assert told == [state["checkpoint_id"] for state in reversed(history)]


async def test_a_stream_goes_on_after_any_frame_on_any_replica(served: Gateway, tmp_path: Path) -> None:
    thread_id = str(uuid4())
    url = served.core.database.url
    async with (
        serving(tmp_path, url, SECTIONS, work=False) as replica,
        served.http() as http,
        replica.http() as other,
    ):
        await start(http, thread_id, "/slow 12")
        everything = await whole(other, thread_id)
        for cut in range(0, len(everything), 7):
            rest = (
                await whole(other, thread_id, since=everything[cut]["seq"])
                if cut + 1 < len(everything)
                else []
            )
            assert rest == everything[cut + 1 :]


async def test_every_connection_sees_the_same_frames_whatever_else_it_asked_for(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, "/tool list_files {}")
        everything = await whole(http, thread_id)
        for channel in ALL:
            some = await whole(http, thread_id, channels=[channel, "lifecycle"], since=0)
            wanted = [f for f in everything if f["method"].partition(".")[0] in (channel, "lifecycle")]
            assert some == wanted, channel


async def test_who_only_watches_is_not_told_again_of_a_run_whose_end_was_told(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, "one")
        # Whoever starts a run and watches then has to hear of its end, however quick it was.
        await whole(http, thread_id, channels=["lifecycle", "input"])
        async with frames(http, thread_id, channels=["lifecycle", "input"]) as stream:
            second = await start(http, thread_id, "two")
            read = await until_end(stream)

    assert {frame["event_id"].split(":")[1] for frame in read} == {second["result"]["run_id"]}


async def test_namespaces_and_depth_narrow_a_stream(served: Gateway) -> None:
    thread_id = str(uuid4())
    task = json.dumps({"description": "look", "prompt": "hello", "subagent_type": "general-purpose"})
    async with served.http() as http:
        await start(http, thread_id, f"/tool task {task}")
        everything = await whole(http, thread_id)
        root = await whole(http, thread_id, namespaces=[[]], depth=0)
        async with frames(http, thread_id, namespaces=[["tools"]]) as stream:
            inner = [await anext(stream) for _ in range(5)]

    assert root == [frame for frame in everything if not frame["params"]["namespace"]]
    assert inner == [frame for frame in everything if frame["params"]["namespace"]][:5]
    started = next(f for f in inner if f["method"] == "lifecycle")["params"]["data"]
    assert (started["event"], started["graph_name"], started["cause"]["type"]) == (
        "started",
        "general-purpose",
        "toolCall",
    )


async def test_a_run_of_v1_is_seen_as_far_as_it_was_asked_to_stream(served: Gateway) -> None:
    thread_id = str(uuid4())
    client = served.client()
    async with served.http() as http:
        modes = ["messages-tuple", "values"]
        async for _ in client.runs.stream(
            (await client.threads.create(thread_id=thread_id))["thread_id"],
            "agent",
            input=human("/slow 5"),
            stream_mode=modes,
        ):
            pass
        read = await whole(http, thread_id)

    assert {frame["method"] for frame in read} == {"lifecycle", "messages", "values"}
    deltas = [f["params"]["data"]["delta"]["text"] for f in read if "delta" in f["params"]["data"]]
    assert "".join(deltas).endswith("4 5")


async def test_a_question_of_a_run_that_streamed_neither_values_nor_updates_is_told(served: Gateway) -> None:
    client = served.client()
    thread_id = (await client.threads.create())["thread_id"]
    async for _ in client.runs.stream(
        thread_id, "agent", input=human(QUESTION), stream_mode="messages-tuple"
    ):
        pass
    async with served.http() as http:
        read = await whole(http, thread_id, channels=["input", "lifecycle"])

    assert [frame["method"] for frame in read] == ["lifecycle", "input.requested", "lifecycle"]
    assert read[-1]["params"]["data"]["event"] == "interrupted"


async def test_an_answer_is_announced_and_given_once(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, QUESTION)
        asked = await whole(http, thread_id, channels=["input", "lifecycle"])
        interrupt_id = asked[1]["params"]["data"]["interrupt_id"]
        unknown = await command(http, thread_id, "input.respond", interrupt_id="other", response=1)
        answer = {"interrupt_id": interrupt_id, "namespace": [], "response": "blue"}
        given = await command(http, thread_id, "input.respond", **answer)
        read = await whole(
            http, thread_id, channels=["input", "lifecycle"], since=given["meta"]["applied_through_seq"]
        )
        again = await command(http, thread_id, "input.respond", **answer)

    assert (unknown["error"], again["error"]) == ("no_such_interrupt", "no_such_interrupt")
    assert [frame["method"] for frame in read] == ["lifecycle", "input.answered", "lifecycle"]
    assert read[1]["params"]["data"] == {"interrupt_ids": [interrupt_id]}
    assert read[-1]["params"]["data"]["event"] == "completed"


async def test_a_run_that_is_taken_back_ends_in_the_stream(served: Gateway) -> None:
    thread_id = str(uuid4())
    client = served.client()
    async with served.http() as http:
        run_id = (await start(http, thread_id, "/slow 200"))["result"]["run_id"]
        async with frames(http, thread_id, channels=["lifecycle", "messages"]) as stream:
            await anext(stream)
            await client.runs.cancel(thread_id, run_id, action="rollback")
            read = await until_end(stream)

    assert read[-1]["params"]["data"]["event"] == "interrupted"
    assert read[-1]["event_id"].startswith(f"synth:{run_id}:")


async def test_a_stream_ends_with_its_thread(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        await start(http, thread_id, "one")
        async with frames(http, thread_id) as stream:
            await until_end(stream)
            await http.delete(f"/threads/{thread_id}")
            async with asyncio.timeout(20):
                assert [frame async for frame in stream] == []
        gone = await http.post(f"/threads/{thread_id}/stream/events", json={"channels": ALL})

    assert gone.status_code == 404


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"channels": ["values", "everything"]}, "everything"),
        ({"channels": "values"}, "body.channels"),
        ({"channels": ALL, "since": -1}, "body.since"),
        ({"channels": ALL, "depth": "deep"}, "body.depth"),
        ({"channels": ALL, "since_when": 1}, "body.since_when"),
        ({}, "body.channels"),
    ],
)
async def test_a_wrong_wish_is_a_422_that_names_it(served: Gateway, body: dict[str, Any], named: str) -> None:
    thread_id = (await served.client().threads.create())["thread_id"]
    async with served.http() as http:
        answer = await http.post(f"/threads/{thread_id}/stream/events", json=body)

    assert answer.status_code == 422
    assert named in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "params", "error", "named"),
    [
        ("run.stop", {}, "unknown_command", "run.stop"),
        ("run.start", {}, "invalid_argument", "params.assistant_id"),
        ("run.start", {"assistant_id": "nobody"}, "invalid_argument", "nobody"),
        ("run.start", {"assistant_id": str(uuid4())}, "invalid_argument", "assistant"),
        ("run.start", {"assistant_id": "agent", "inputs": 1}, "invalid_argument", "params.inputs"),
        ("run.start", {"assistant_id": "agent", "input": 5}, "invalid_argument", "input"),
        ("run.start", {"assistant_id": "agent", "multitask_strategy": "x"}, "invalid_argument", "strategy"),
        ("input.respond", {}, "invalid_argument", "interrupt_id"),
        ("input.respond", {"responses": []}, "invalid_argument", "responses"),
        ("agent.getTree", {}, "no_such_run", "run"),
    ],
)
async def test_a_wrong_command_is_refused_by_its_own_error(
    served: Gateway, method: str, params: dict[str, Any], error: str, named: str
) -> None:
    thread_id = (await served.client().threads.create())["thread_id"]
    async with served.http() as http:
        answer = await command(http, thread_id, method, **params)

    assert (answer["type"], answer["error"]) == ("error", error)
    assert named in answer["message"]


async def test_what_is_no_command_at_all_is_a_422(served: Gateway) -> None:
    thread_id = str(uuid4())
    async with served.http() as http:
        answers = [
            await http.post(f"/threads/{thread_id}/commands", json=body)
            for body in ({"method": "run.start"}, {"id": "one", "method": "x"}, [], {"id": 1})
        ]
        bad_thread = await http.post("/threads/no-uuid/commands", json={"id": 1, "method": "x"})

    assert [answer.status_code for answer in answers] == [422] * 4
    assert bad_thread.status_code == 422


@asynccontextmanager
async def socket(served: Gateway, thread_id: str) -> AsyncIterator[ClientConnection]:
    url = served.api.replace("http", "ws", 1)
    async with asyncio.timeout(20), connect(f"{url}/threads/{thread_id}/stream/events") as opened:
        yield opened


async def tell(opened: ClientConnection, command_id: int, method: str, **params: Any) -> None:
    await opened.send(json.dumps({"id": command_id, "method": method, "params": params}))


async def heard(opened: ClientConnection) -> Frame:
    frame: Frame = json.loads(await opened.recv())
    return frame


async def test_a_socket_takes_commands_and_gives_frames_to_subscriptions(served: Gateway) -> None:
    async with socket(served, str(uuid4())) as opened:
        await tell(opened, 1, "run.start", assistant_id="agent", input=human("hello"))
        started = await heard(opened)
        await tell(opened, 2, "subscription.subscribe", channels=["lifecycle"])
        subscribed = await heard(opened)
        read = [await heard(opened), await heard(opened)]
        name = subscribed["result"]["subscription_id"]
        await tell(opened, 3, "subscription.unsubscribe", subscription_id=name)
        ended = await heard(opened)
        await tell(opened, 4, "subscription.unsubscribe", subscription_id=name)
        unknown = await heard(opened)

    assert [started["type"], subscribed["type"], ended["type"]] == ["success"] * 3
    assert [frame["params"]["data"]["event"] for frame in read] == ["running", "completed"]
    assert unknown["error"] == "no_such_subscription"


async def test_a_socket_says_what_is_wrong_and_stays_open(served: Gateway) -> None:
    thread_id = (await served.client().threads.create())["thread_id"]
    async with socket(served, thread_id) as opened:
        await opened.send("no json")
        await opened.send('{"id": 1}')
        await tell(opened, 2, "subscription.subscribe", channels=["everything"])
        await tell(opened, 3, "subscription.reconnect", run_id="x")
        answers = [await heard(opened) for _ in range(4)]

    assert [(answer["id"], answer["error"]) for answer in answers] == [
        (None, "invalid_argument"),
        (None, "invalid_argument"),
        (2, "invalid_argument"),
        (3, "not_supported"),
    ]


async def test_a_socket_on_no_thread_is_closed_with_the_status_it_would_have_had(served: Gateway) -> None:
    async with socket(served, str(uuid4())) as opened:
        await tell(opened, 1, "subscription.subscribe", channels=["lifecycle"])
        refused = await heard(opened)
        with pytest.raises(ConnectionClosed) as closed:
            await heard(opened)
    async with socket(served, "no-uuid") as opened:
        with pytest.raises(ConnectionClosed) as invalid:
            await heard(opened)

    assert refused["error"] == "no_such_run"
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404
    assert invalid.value.rcvd is not None and invalid.value.rcvd.code == 4422
