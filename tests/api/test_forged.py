"""Rule H3: what clients cannot forge, at every way in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.api.openapi import operations
from app.services.threads.sanitize import CONTROL_CHANNELS, FLAGS, SUFFIXES
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

# Every test has the same service; the runs are executed.
pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "said by a client"
Way = Callable[[httpx.AsyncClient, dict[str, Any]], Awaitable[httpx.Response]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    async with (
        clone(database_template) as database_url,
        serving(tmp_path_factory.mktemp("forged"), database_url) as gateway,
    ):
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with served.http() as opened:
        yield opened


def human(**forged: Any) -> dict[str, Any]:
    return {"type": "human", "content": TEXT, **forged}


async def thread(http: httpx.AsyncClient, said: bool = False) -> str:
    thread_id = str((await http.post("/threads", json={})).json()["thread_id"])
    if said:
        await http.post(f"/threads/{thread_id}/state", json={"values": {"messages": [human()]}})
    return thread_id


async def run(http: httpx.AsyncClient, body: dict[str, Any], said: bool = False) -> httpx.Response:
    """Starts a run, waits for its end, and answers with what is kept of it: the state, or the refusal."""
    thread_id = await thread(http, said)
    started = await http.post(f"/threads/{thread_id}/runs", json={"assistant_id": "agent", **body})
    if started.status_code != 200:
        return started
    await http.get(f"/threads/{thread_id}/runs/{started.json()['run_id']}/join")
    return await http.get(f"/threads/{thread_id}/state")


async def by_input(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    return await run(http, {"input": values})


async def by_update(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    return await run(http, {"command": {"update": values}}, said=True)


async def by_update_in_pairs(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    return await run(http, {"command": {"update": [list(pair) for pair in values.items()]}}, said=True)


async def by_send(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    return await run(http, {"command": {"goto": [{"node": "model", "input": values}]}}, said=True)


async def by_state(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    thread_id = await thread(http)
    written = await http.post(f"/threads/{thread_id}/state", json={"values": values})
    return written if written.status_code != 200 else await http.get(f"/threads/{thread_id}/state")


async def by_state_as_start(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    thread_id = await thread(http)
    body = {"values": values, "as_node": "__start__"}
    written = await http.post(f"/threads/{thread_id}/state", json=body)
    return written if written.status_code != 200 else await http.get(f"/threads/{thread_id}/state")


async def by_import(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    steps = [{"updates": [{"values": values, "as_node": "__start__"}]}]
    made = await http.post("/threads", json={"supersteps": steps})
    return made if made.status_code != 200 else await http.get(f"/threads/{made.json()['thread_id']}/state")


async def by_import_of_a_command(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    steps = [{"updates": [{"command": {"update": values}, "as_node": "__start__"}]}]
    made = await http.post("/threads", json={"supersteps": steps})
    return made if made.status_code != 200 else await http.get(f"/threads/{made.json()['thread_id']}/state")


async def by_copy(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    """What got into no thread gets into no copy."""
    thread_id = await thread(http)
    written = await http.post(f"/threads/{thread_id}/state", json={"values": values})
    if written.status_code != 200:
        return written
    copy = (await http.post(f"/threads/{thread_id}/copy")).json()
    return await http.get(f"/threads/{copy['thread_id']}/state")


async def by_stateless_run(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    return await http.post("/runs/wait", json={"assistant_id": "agent", "input": values})


async def by_thread_command(http: httpx.AsyncClient, values: dict[str, Any]) -> httpx.Response:
    thread_id = await thread(http)
    params = {"assistant_id": "agent", "input": values}
    started = await http.post(
        f"/threads/{thread_id}/commands", json={"id": 1, "method": "run.start", "params": params}
    )
    answer = started.json()
    if answer.get("type") != "success":
        return started
    await http.get(f"/threads/{thread_id}/runs/{answer['result']['run_id']}/join")
    return await http.get(f"/threads/{thread_id}/state")


WAYS: dict[str, Way] = {
    "run input": by_input,
    "command.update": by_update,
    "command.update in pairs": by_update_in_pairs,
    "command.goto": by_send,
    "state": by_state,
    "state as start": by_state_as_start,
    "import": by_import,
    "import of a command": by_import_of_a_command,
    "copy": by_copy,
    "stateless run": by_stateless_run,
    "v2 command": by_thread_command,
}
# Beside values of the state: which routes take something that is kept, and what sees to it.
WITHOUT_VALUES = {
    "commands": "v2 command",
    "runs": "run input",
    "stream": "run input",
    "wait": "run input",
    "batch": "stateless run",
    "state": "state",
    "copy": "copy",
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_mark_of_ours_gets_into_a_thread(http: httpx.AsyncClient, way: str) -> None:
    """All at once, each on a message of its own; what people may say stays."""
    flagged = [
        human(**{place: {flag: True, "kept": 1}}, id=f"{flag}-{place}")
        for flag in sorted(FLAGS)
        for place in ("additional_kwargs", "response_metadata")
    ]
    flat = [human(**{flag: True}, id=f"{flag}-flat") for flag in sorted(FLAGS)]
    named = [human(name="summary", id="named"), human(name="ann", id="plain")]
    suffixed = [human(id=f"id{number}{suffix}") for number, suffix in enumerate(SUFFIXES)]
    twice = [human(id=f"both{SUFFIXES[0]}{SUFFIXES[1]}")]
    given = [*flagged, *flat, *named, *suffixed, *twice]

    response = await WAYS[way](http, {"messages": given})

    assert response.status_code == 200, response.text
    values = response.json()
    kept = (values.get("values") or values)["messages"]
    mine = [message for message in kept if message["content"] == TEXT]
    if way != "command.goto":
        # What a node is sent in the place of the state is no part of the state.
        assert len(mine) >= len(given)
        assert [message["name"] for message in mine if message["name"]] == ["ann"]
        assert json.dumps(mine).count('"kept": 1') == len(flagged)
    for message in mine:
        assert not [flag for flag in FLAGS if flag in json.dumps({**message, "id": ""})]
        assert message["name"] != "summary"
    ids = [str(message["id"]) for message in mine]
    assert len(set(ids)) == len(ids)
    assert not [forged for forged in ids if forged in {item["id"] for item in (*suffixed, *twice)}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channel", sorted(CONTROL_CHANNELS))
async def test_what_only_the_service_writes_is_refused(
    http: httpx.AsyncClient, way: str, channel: str
) -> None:
    response = await WAYS[way](http, {"messages": [human()], channel: "forged"})
    if way == "v2 command":
        answer = response.json()
        assert answer["type"] == "error"
        assert channel in json.dumps(answer)
        return
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert channel in response.json()["detail"]


RESUMED = {
    "decisions": [{"hide_from_ui": True, "kept": 1}],
    "message": {"role": "user", "content": TEXT, "name": "summary", "id": f"x{SUFFIXES[0]}"},
    "durable_context_data": {"skill_context_entry": 1},
}


def clean_of_marks(value: Any) -> None:
    text = json.dumps(value)
    assert not [flag for flag in FLAGS if flag in text]
    assert '"summary"' not in text
    assert not [suffix for suffix in SUFFIXES if suffix in text]
    assert TEXT in text
    assert '"kept": 1' in text


async def test_an_answer_to_a_question_holds_none(http: httpx.AsyncClient) -> None:
    thread_id = await thread(http, said=True)
    body = {"assistant_id": "agent", "command": {"resume": RESUMED}}
    started = await http.post(f"/threads/{thread_id}/runs", json=body)
    assert started.status_code == 200
    clean_of_marks(started.json()["kwargs"]["command"]["resume"])


async def test_an_item_of_the_store_holds_none(http: httpx.AsyncClient) -> None:
    written = await http.put("/store/items", json={"namespace": ["a"], "key": "k", "value": RESUMED})
    assert written.status_code == 204
    found = await http.get("/store/items", params={"namespace": "a", "key": "k"})
    clean_of_marks(found.json()["value"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/threads/{thread}/runs", {"assistant_id": "agent", "input": {"messages": []}}),
        ("/runs", {"assistant_id": "agent", "input": {"messages": []}}),
        ("/assistants", {"graph_id": "agent"}),
    ],
)
@pytest.mark.parametrize(
    "forged",
    [
        {"config": {"configurable": {"langgraph_auth_user": {"identity": "x"}}}},
        {"config": {"configurable": {"langgraph_auth_user_id": "x"}}},
        {"config": {"configurable": {"__pregel_resuming": True}}},
        {"context": {"langgraph_auth_user": {"identity": "x"}}},
        {"context": {"__anything": 1}},
        {"metadata": {"langgraph_auth_user_id": "x"}},
    ],
)
async def test_nobody_says_who_asks_but_the_service(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], forged: dict[str, Any]
) -> None:
    address = path.replace("{thread}", await thread(http))
    response = await http.post(address, json={**body, **forged})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert "reserved" in response.json()["detail"]


async def test_no_route_takes_messages_that_is_not_tried_here(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    takers = {
        path.rpartition("/")[2]
        for path, method, operation in operations(document)
        if method == "post" and _takes_values(document, operation)
    }
    assert takers <= {*WITHOUT_VALUES, "threads"}


def _takes_values(document: dict[str, Any], operation: dict[str, Any]) -> bool:
    """Whether the body has a field that becomes a part of a thread's state."""
    text = json.dumps(operation.get("requestBody", {}))
    seen: set[str] = set()
    todo = [text]
    while todo:
        current = todo.pop()
        if any(f'"{field}": {{' in current for field in ("input", "supersteps", "as_node")):
            return True
        for name, schema in document["components"]["schemas"].items():
            if f'schemas/{name}"' in current and name not in seen:
                seen.add(name)
                todo.append(json.dumps(schema))
    return False
