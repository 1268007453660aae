"""Bodies of runs as careless and hostile clients send them: refused with the field, or executed; never a 500."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway

# One gateway serves all of these, on the loop that it was started on.
pytestmark = pytest.mark.asyncio(loop_scope="module")
HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
WIDE = 10**30

REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"config": {"configurable": {"checkpoint_id": 1}}}, 422, "body.config.configurable.checkpoint_id"),
    ({"config": {"configurable": {"checkpoint_map": "x"}}}, 422, "checkpoint_map"),
    ({"checkpoint": {"checkpoint_id": 1}}, 422, "body.checkpoint.checkpoint_id"),
    ({"checkpoint": {"checkpoint_id": None, "other": 1}}, 422, "body.checkpoint.other"),
    ({"checkpoint": {"thread_id": "x", "checkpoint_id": "y"}}, 422, "body.checkpoint.thread_id"),
    ({"checkpoint": {"checkpoint_ns": "tools:1"}}, 404, "tools:1"),
    ({"input": {**HELLO, "messages": [{"role": "user", "content": "x", "n": WIDE}]}}, 422, "messages[0]"),
    (
        {"input": {"messages": [{"role": "ai", "content": "", "tool_calls": [{"args": {"n": WIDE}}]}]}},
        422,
        "input.messages[0].tool_calls[0].args.n",
    ),
    ({"input": None, "command": {"resume": [WIDE]}}, 422, "command.resume[0]"),
    ({"input": None, "command": {"goto": [[]]}}, 422, "command.goto"),
    ({"input": None, "command": {"goto": 1}}, 422, "command.goto"),
    ({"input": None, "command": {"goto": {}}}, 422, "command.goto"),
    ({"input": None, "command": {"goto": {"node": "model", "to": 1}}}, 422, "command.goto"),
    ({"input": None, "command": {"goto": "__start__"}}, 422, "__start__"),
    ({"input": None, "command": {"update": {}}}, 422, "command"),
    ({"input": None, "command": {"update": [["messages", []], ["messages", []]]}}, 422, "twice"),
    ({"input": None, "command": {"update": [1]}}, 422, "command.update"),
]


@pytest.mark.parametrize(("change", "status", "named"), REFUSED, ids=[str(row[2]) for row in REFUSED])
async def test_what_no_graph_could_execute_is_refused_before_anything_is_written(
    shared_http: httpx.AsyncClient, change: dict[str, Any], status: int, named: str
) -> None:
    thread_id = (await shared_http.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "agent", "input": HELLO, **change}
    for route in ("runs", "runs/stream", "runs/wait"):
        response = await shared_http.post(f"/threads/{thread_id}/{route}", json=body)
        assert (response.status_code, named in response.json()["detail"]) == (status, True), response.text
    assert (await shared_http.get(f"/threads/{thread_id}/runs")).json() == []


@pytest.mark.asyncio(loop_scope="function")
async def test_a_command_of_nothing_continues_as_no_command_does(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    text = {"messages": [{"role": "user", "content": "/tool list_files {}"}]}
    await client.runs.wait(thread_id, "agent", input=text, interrupt_before=["tools"])
    async with gateway.http() as http:
        body = {"assistant_id": "agent", "command": {"resume": None, "update": None, "goto": None}}
        values = (await http.post(f"/threads/{thread_id}/runs/wait", json=body)).json()
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]


@pytest.mark.asyncio(loop_scope="function")
async def test_an_update_may_be_pairs_of_keys_and_values(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    update: Any = [["messages", [{"role": "user", "content": "and this"}]]]
    values: Any = await client.runs.wait(thread_id, "agent", command={"update": update, "goto": "model"})
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "human", "ai"]


async def test_a_page_of_runs_that_is_out_of_reach_names_its_offset(shared_http: httpx.AsyncClient) -> None:
    thread_id = (await shared_http.post("/threads", json={})).json()["thread_id"]
    response = await shared_http.get(f"/threads/{thread_id}/runs", params={"offset": 10**25})
    assert (response.status_code, "query.offset" in response.json()["detail"]) == (422, True)


async def test_assistants_are_asked_for_fields_they_have(shared_http: httpx.AsyncClient) -> None:
    for select, status in ((["name"], 200), ([""], 422), (["name", "nothing"], 422)):
        response = await shared_http.post("/assistants/search", json={"select": select})
        assert response.status_code == status
    assert "'nothing'" in response.json()["detail"]


FIELDS = (
    *("input", "command", "config", "context", "metadata", "stream_mode", "stream_subgraphs", "checkpoint"),
    *("checkpoint_id", "interrupt_before", "interrupt_after", "multitask_strategy", "if_not_exists"),
    *("on_disconnect", "durability", "webhook", "after_seconds", "on_completion", "stream_resumable"),
    *("feedback_keys", "langsmith_tracer", "checkpoint_during", "strict_resume", "assistant_id"),
)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, WIDE, "", " ", "x" * 70_000, "💥", "*", "values", "model", "__end__"),
    *([], [[]], [None], [1], {}, {"": ""}, {"a": {"b": [1, {"c": None}]}}, '["values"]'),
    *(
        {"messages": None},
        {"messages": [None]},
        {"messages": {}},
        {"messages": "hi"},
        {"messages": [["user"]]},
    ),
    *({"messages": [{"role": "user", "content": [{}]}]}, {"messages": [{"type": "remove", "id": "x"}]}),
    *(
        {"messages": [{"lc": 1, "type": "secret", "id": ["KEY"]}]},
        {"messages": [{"role": "tool", "content": "x"}]},
    ),
    *(
        {"configurable": {"checkpoint_ns": "x"}},
        {"configurable": {"run_id": 1, "run_attempt": "x"}},
        {"tags": [1]},
    ),
    *(
        {"resume": {}},
        {"resume": "x"},
        {"goto": "tools"},
        {"goto": {"node": "tools", "input": {}}},
        {"update": []},
    ),
)


async def test_no_value_of_any_field_makes_an_internal_error(shared_http: httpx.AsyncClient) -> None:
    thread_id = (await shared_http.post("/threads", json={})).json()["thread_id"]
    choose = random.Random(20260)
    bodies = [{"assistant_id": "agent", "input": HELLO, field: value} for field in FIELDS for value in ODD]
    bodies += [
        {"assistant_id": "agent", **{field: choose.choice(ODD) for field in choose.sample(FIELDS, 3)}}
        for _ in range(200)
    ]
    for body in bodies:
        response = await shared_http.post(f"/threads/{thread_id}/runs", json=body)
        assert response.status_code < 500, (body, response.text)
        if response.status_code >= 400:
            assert set(response.json()) == {"detail", "code"}, body
