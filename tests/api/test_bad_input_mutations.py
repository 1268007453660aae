"""Correct bodies, broken at random: whatever comes, the answer is no 500, and the thread stays usable."""

from __future__ import annotations

import copy
import random
import uuid
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")

MUTATIONS = 400
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    10**30,
    1.5,
    "",
    "x",
    "a" * 300,
    "é😀",
    "__user",
    "../x",
    "__start__",
    "__end__",
    "__copy__",
    "model",
    "values",
    [],
    [[]],
    [None],
    ["a"],
    {},
    {"a": 1},
    {"messages": []},
    {"type": "human", "content": "x"},
    [{"type": "remove", "id": "__remove_all__"}],
    {"configurable": {}},
    {"__overwrite__": 5},
]
MESSAGES = [
    {
        "type": "ai",
        "content": "x",
        "id": "a1",
        "name": "n",
        "tool_calls": [{"name": "f", "args": {}, "id": "c1"}],
        "invalid_tool_calls": [{"name": "f", "args": "{", "id": "c2", "error": None}],
        "usage_metadata": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        "additional_kwargs": {},
        "response_metadata": {},
    },
    {"type": "tool", "content": "x", "tool_call_id": "c1", "status": "success", "artifact": {}, "name": "f"},
]


def requests(thread_id: str, checkpoint_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    thread = f"/threads/{thread_id}"
    place = {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": checkpoint_id,
        "checkpoint_map": {},
    }
    step = {"values": {"messages": MESSAGES}, "command": {"update": {}, "goto": "tools"}, "as_node": "model"}
    return [
        (
            "POST",
            "/threads",
            {"metadata": {}, "if_exists": "raise", "supersteps": [{"updates": [step]}], "ttl": 5},
        ),
        ("POST", "/threads", {"thread_id": str(uuid.uuid4()), "ttl": {"ttl": 1, "strategy": "delete"}}),
        (
            "POST",
            "/threads/search",
            {
                "metadata": {"a": 1},
                "values": {"title": "x"},
                "ids": [thread_id],
                "status": "idle",
                "limit": 3,
                "offset": 0,
                "sort_by": "status",
                "sort_order": "asc",
                "select": ["values"],
                "extract": {"a": "values.messages[0]"},
            },
        ),
        ("PATCH", thread, {"metadata": {"a": {"b": 1}}}),
        (
            "POST",
            f"{thread}/state",
            {"values": {"messages": MESSAGES}, "as_node": "model", "checkpoint": place},
        ),
        ("POST", f"{thread}/state", {"values": [{"messages": MESSAGES}], "checkpoint_id": checkpoint_id}),
        (
            "POST",
            f"{thread}/state/checkpoint",
            {"checkpoint": place, "subgraphs": True, "select": ["values"]},
        ),
        (
            "POST",
            f"{thread}/history",
            {"limit": 3, "before": place, "metadata": {"a": 1}, "checkpoint": place},
        ),
        ("POST", f"{thread}/history", {"before": {"configurable": place}, "select": ["values.messages"]}),
        (
            "POST",
            "/assistants/search",
            {"metadata": {}, "name": "x", "limit": 2, "sort_by": "name", "select": ["name"]},
        ),
    ]


def broken(body: dict[str, Any], dice: random.Random) -> Any:
    """A copy with one part replaced, removed or added, at any depth."""
    body = copy.deepcopy(body)
    part: Any = body
    while True:
        key = dice.choice(list(part) if isinstance(part, dict) else range(len(part)))
        if part[key] and isinstance(part[key], (dict, list)) and dice.random() < 0.7:
            part = part[key]
            continue
        match dice.randrange(8):
            case 0:
                del part[key]
            case 1 if isinstance(part, dict):
                part[dice.choice(["mood", "", "type", "data", "lc"])] = dice.choice(ODD)
            case _:
                part[key] = copy.deepcopy(dice.choice(ODD))
        return body


async def test_a_body_broken_anywhere_gets_an_answer_that_says_so(shared_http: httpx.AsyncClient) -> None:
    dice = random.Random(20250101)
    thread_id = (await shared_http.post("/threads")).json()["thread_id"]
    written = await shared_http.post(f"/threads/{thread_id}/state", json={"values": {"messages": MESSAGES}})
    refused = 0
    for _ in range(MUTATIONS):
        method, path, body = dice.choice(requests(thread_id, written.json()["checkpoint_id"]))
        wrong = broken(body, dice)
        response = await shared_http.request(method, path, json=wrong)
        assert response.status_code in (200, 404, 409, 422), (method, path, wrong, response.text)
        if response.status_code != 200:
            refused += 1
            assert set(response.json()) == {"detail", "code"}
    assert refused > MUTATIONS / 3
    assert (await shared_http.get(f"/threads/{thread_id}/state")).status_code == 200
    again = await shared_http.post(
        f"/threads/{thread_id}/state", json={"values": {"messages": ["still here"]}}
    )
    assert again.status_code == 200
