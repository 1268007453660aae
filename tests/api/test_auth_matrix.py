"""Every route × nobody, a wrong key, another owner, the owner, an administrator. A new route needs a row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import pytest
import pytest_asyncio
import websockets
from fastapi.routing import APIWebSocketRoute

from app.api.application import build_app
from app.api.openapi import operations
from app.config import ServerSettings
from tests.support.accounts import Accounts, with_accounts
from tests.support.postgres import clone

Access = Literal["open", "admin", "everybody", "own", "thing"]
"""``own``: a list or a new thing, each sees theirs. ``thing``: one that belongs to ann, and exists for nobody else."""

RUN = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}


@dataclass(frozen=True)
class Row:
    """``body`` may hold names of what ann has, as ``{thread_id}``."""

    access: Access
    body: Any = None
    query: Mapping[str, str] | None = None


T = "/api/threads/{thread_id}"
ROWS: dict[str, Row] = {
    **{f"GET /api/{name}": Row("open") for name in ("ok", "health", "ready", "info")},
    "GET /api/metrics": Row("admin"),
    "GET /api/keys": Row("admin"),
    "DELETE /api/keys/{key_id}": Row("admin"),
    "GET /api/owners": Row("admin"),
    "DELETE /api/owners/{owner}": Row("admin"),
    "GET /api/models": Row("everybody"),
    "GET /api/skills": Row("everybody"),
    "GET /api/features": Row("everybody"),
    "POST /api/threads": Row("own", {}),
    "POST /api/threads/search": Row("own", {"limit": 1000}),
    "POST /api/threads/count": Row("own", {}),
    "POST /api/threads/prune": Row("own", {"thread_ids": ["{thread_id}"], "strategy": "keep_latest"}),
    f"GET {T}": Row("thing"),
    f"PATCH {T}": Row("thing", {"metadata": {"a": 1}}),
    f"DELETE {T}": Row("thing"),
    f"POST {T}/copy": Row("thing"),
    f"GET {T}/storage": Row("thing"),
    f"POST {T}/branches": Row("thing", {"message_id": "{message_id}"}),
    f"POST {T}/runs/regenerate/prepare": Row("thing", {"message_id": "{message_id}"}),
    f"POST {T}/runs/edit-regenerate/prepare": Row(
        "thing", {"human_message_id": "{message_id}", "replacement_text": "other words"}
    ),
    f"GET {T}/state": Row("thing"),
    f"POST {T}/state": Row("thing", {"values": {"messages": []}}),
    f"PATCH {T}/state": Row("thing", {"metadata": {"a": 1}}),
    f"GET {T}/state/{{checkpoint_id}}": Row("thing"),
    f"POST {T}/state/checkpoint": Row("thing", {"checkpoint": {"checkpoint_id": "{checkpoint_id}"}}),
    f"GET {T}/history": Row("thing"),
    f"POST {T}/history": Row("thing", {}),
    f"GET {T}/runs": Row("thing"),
    f"POST {T}/runs": Row("thing", RUN),
    f"POST {T}/runs/stream": Row("thing", RUN),
    f"POST {T}/runs/wait": Row("thing", RUN),
    f"GET {T}/runs/{{run_id}}": Row("thing"),
    f"DELETE {T}/runs/{{run_id}}": Row("thing"),
    f"GET {T}/runs/{{run_id}}/join": Row("thing"),
    f"GET {T}/runs/{{run_id}}/stream": Row("thing"),
    f"POST {T}/runs/{{run_id}}/cancel": Row("thing"),
    "POST /api/runs": Row("own", RUN),
    "POST /api/runs/stream": Row("own", RUN),
    "POST /api/runs/wait": Row("own", RUN),
    "POST /api/runs/batch": Row("own", [RUN]),
    "POST /api/runs/cancel": Row("thing", {"run_ids": ["{run_id}"], "thread_id": "{thread_id}"}),
    f"GET {T}/stream": Row("thing"),
    f"POST {T}/commands": Row("thing", {"id": 1, "method": "agent.getTree", "params": {}}),
    f"POST {T}/stream/events": Row("thing", {"channels": ["values"]}),
    f"WS {T}/stream/events": Row("thing"),
    f"GET {T}/token-usage": Row("thing"),
    f"POST {T}/compact": Row("thing", {}),
    f"GET {T}/context": Row("thing"),
    f"GET {T}/compactions": Row("thing"),
    f"GET {T}/compactions/{{compaction_id}}": Row("thing"),
    f"DELETE {T}/compactions/{{compaction_id}}": Row("thing"),
    f"POST {T}/compactions/{{compaction_id}}/apply": Row("thing", {}),
    f"POST {T}/compactions/{{compaction_id}}/undo": Row("thing"),
    f"POST {T}/compactions/{{compaction_id}}/redo": Row("thing"),
    f"GET {T}/pins": Row("thing"),
    f"PUT {T}/messages/{{message_id}}/pin": Row("thing"),
    f"DELETE {T}/messages/{{message_id}}/pin": Row("thing"),
    f"GET {T}/messages": Row("thing"),
    f"GET {T}/messages/search": Row("thing", query={"q": "hello"}),
    f"GET {T}/messages/page": Row("thing"),
    f"GET {T}/runs/{{run_id}}/messages": Row("thing"),
    "POST /api/assistants": Row("own", {"graph_id": "agent"}),
    "POST /api/assistants/search": Row("own", {"limit": 1000}),
    "POST /api/assistants/count": Row("own", {}),
    "GET /api/assistants/{assistant_id}": Row("thing"),
    "PATCH /api/assistants/{assistant_id}": Row("thing", {"metadata": {"a": 1}}),
    "DELETE /api/assistants/{assistant_id}": Row("thing"),
    "POST /api/assistants/{assistant_id}/versions": Row("thing", {}),
    "POST /api/assistants/{assistant_id}/latest": Row("thing", {"version": 1}),
    "GET /api/assistants/{assistant_id}/schemas": Row("thing"),
    "GET /api/assistants/{assistant_id}/graph": Row("thing"),
    "GET /api/assistants/{assistant_id}/subgraphs": Row("thing"),
    "GET /api/assistants/{assistant_id}/subgraphs/{namespace}": Row("thing"),
    "GET /api/memory": Row("own"),
    "DELETE /api/memory": Row("own"),
    "GET /api/memory/{key}": Row("thing"),
    "PUT /api/memory/{key}": Row("own", {"text": "Likes red"}),
    "DELETE /api/memory/{key}": Row("own"),
    "GET /api/store/items": Row("own", query={"namespace": "notes", "key": "secret"}),
    "PUT /api/store/items": Row("own", {"namespace": ["notes"], "key": "other", "value": {}}),
    "DELETE /api/store/items": Row("own", {"namespace": ["notes"], "key": "secret"}),
    "POST /api/store/items/search": Row("own", {}),
    "POST /api/store/namespaces": Row("own", {}),
}
MARK = "what only ann may read"


def order(route: str) -> tuple[bool, bool, int]:
    """What removes things comes last, and of it the things inside of others first."""
    method, _, path = route.partition(" ")
    return method == "DELETE", path == T, -len(path)


def described() -> Iterator[str]:
    app = build_app(ServerSettings(), None)
    for path, method, _ in operations(app.openapi()):
        yield f"{method.upper()} {path}"
    yield from (f"WS {path}" for path in sockets(app, ""))


def sockets(router: Any, prefix: str) -> Iterator[str]:
    for route in router.routes:
        if isinstance(route, APIWebSocketRoute):
            yield prefix + route.path
        elif inner := getattr(route, "original_router", None):
            yield from sockets(inner, prefix + route.include_context.prefix)


@dataclass(frozen=True)
class World:
    """The service, and the ids of what ann has in it."""

    accounts: Accounts
    things: Mapping[str, str]

    def named(self, template: Any) -> Any:
        """With the ids in the place of their names."""
        match template:
            case str():
                for name, value in self.things.items():
                    template = template.replace("{" + name + "}", value)
                return template
            case dict():
                return {key: self.named(value) for key, value in template.items()}
            case list():
                return [self.named(item) for item in template]
            case _:
                return template

    async def ask(self, route: str, http: httpx.AsyncClient) -> tuple[int, str]:
        """Status and text of the answer; without the text where that is a stream."""
        method, _, path = route.partition(" ")
        if method == "WS":
            return await self._knock(path, http)
        row = ROWS[route]
        address = self.accounts.gateway.url + self.named(path)
        async with http.stream(method, address, json=self.named(row.body), params=row.query) as response:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            return response.status_code, "" if streamed else (await response.aread()).decode()

    async def _knock(self, path: str, http: httpx.AsyncClient) -> tuple[int, str]:
        """A socket is accepted before it says that there is no such thread."""
        address = self.accounts.gateway.url.replace("http", "ws", 1) + self.named(path)
        shown = {
            name: http.headers[name] for name in ("x-api-key", "x-threadkeep-owner") if name in http.headers
        }
        try:
            async with websockets.connect(address, additional_headers=shown) as socket:
                await socket.send('{"id": 1, "method": "agent.getTree", "params": {}}')
                answer = str(await socket.recv())
                return (404 if "There is no thread" in answer else 200), answer
        except websockets.InvalidStatus as error:
            return error.response.status_code, (error.response.body or b"").decode()
        except websockets.ConnectionClosed as error:
            return (404 if "There is no thread" in str(error) else 500), str(error)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[World]:
    sections = {"memory": {"enabled": True}}
    async with (
        clone(database_template) as database_url,
        with_accounts(tmp_path_factory.mktemp("matrix"), database_url, sections) as accounts,
        accounts.http("ann") as ann,
    ):
        yield World(accounts, await things_of(ann))


async def things_of(ann: httpx.AsyncClient) -> dict[str, str]:
    async def post(path: str, body: Any) -> Any:
        response = await ann.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    thread_id = (await post("/threads", {"metadata": {"mark": MARK}}))["thread_id"]
    long = [
        {"role": role, "content": f"{role} {'word ' * 400}"}
        for _ in range(8)
        for role in ("user", "assistant")
    ]
    await post(f"/threads/{thread_id}/state", {"values": {"messages": long}})
    run_id = (await post(f"/threads/{thread_id}/runs", RUN))["run_id"]
    await ann.get(f"/threads/{thread_id}/runs/{run_id}/join")
    state = (await ann.get(f"/threads/{thread_id}/state")).json()
    compacted = await post(f"/threads/{thread_id}/compact", {"keep": {"type": "messages", "value": 1}})
    assistant = await post("/assistants", {"graph_id": "agent", "metadata": {"mark": MARK}})
    await ann.put("/memory/colour", json={"text": MARK})
    await ann.put("/store/items", json={"namespace": ["notes"], "key": "secret", "value": {"mark": MARK}})
    return {
        "thread_id": thread_id,
        "run_id": run_id,
        "checkpoint_id": state["checkpoint"]["checkpoint_id"],
        "message_id": state["values"]["messages"][-1]["id"],
        "compaction_id": compacted["compaction_id"],
        "assistant_id": assistant["assistant_id"],
        "key": "colour",
        "key_id": "0123456789abcdef",
        "namespace": "none",
        "owner": "nobody-yet",
    }


def test_every_route_has_a_row() -> None:
    assert set(described()) == set(ROWS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", sorted(ROWS, key=order))
async def test_a_route_answers_who_may_ask_and_nobody_else(world: World, route: str) -> None:
    access, accounts = ROWS[route].access, world.accounts
    wrong = {"x-api-key": "tk_0123456789abcdef_" + "x" * 43}
    async with (
        accounts.http(None) as nobody,
        accounts.http(None, **wrong) as stranger,
        accounts.http("bob") as bob,
        accounts.http("ann") as ann,
        accounts.http("root") as root,
        accounts.http("root", **{"x-threadkeep-owner": "ann"}) as root_for_ann,
    ):
        for unknown in (nobody, stranger):
            status, text = await world.ask(route, unknown)
            assert (status == 401) is (access != "open"), text
        for other in (bob, root):
            status, text = await world.ask(route, other)
            if access == "admin":
                assert (status == 403) is (other is bob), text
            else:
                assert (status == 404) is (access == "thing"), text
                assert status not in (401, 403), text
            assert MARK not in text
        if access == "admin":
            assert (await world.ask(route, ann))[0] == 403
            return
        askers = (ann,) if route.startswith("DELETE") else (root_for_ann, ann)
        for allowed in askers:
            status, text = await world.ask(route, allowed)
            missing = status == 404 and not route.endswith(("/subgraphs/{namespace}", "/runs/cancel"))
            assert status not in (401, 403) and not missing, text
            assert status < 500, text


@pytest.mark.asyncio(loop_scope="module")
async def test_nothing_of_ann_was_touched_by_others(world: World) -> None:
    """After all of the above, what only a list names is gone by her own hand alone."""
    async with world.accounts.http("bob") as bob:
        threads = (await bob.post("/threads/search", json={"metadata": {"mark": MARK}})).json()
    assert threads == []
