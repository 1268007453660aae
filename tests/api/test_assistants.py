"""Assistants: every call of the official client, versions, and what runs take from them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from app.agent.names import assistant_id
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = Path(__file__).parents[1] / "data" / "graphs" / "chat.py"
SECTIONS = {"graphs": {name: f"{CHAT}:{name}" for name in ("compiled", "by_config", "asking", "sums")}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("assistants")
    async with clone(database_template) as url, serving(folder, url, SECTIONS) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[LangGraphClient]:
    async with gateway.client() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.http() as opened:
        yield opened


async def said(client: LangGraphClient, assistant: str, **options: Any) -> str:
    thread = await client.threads.create()
    given = {"messages": [{"role": "user", "content": "Hello"}]}
    values: Any = await client.runs.wait(thread["thread_id"], assistant, input=given, **options)
    return values["messages"][-1]["content"]  # type: ignore[no-any-return]


async def test_an_assistant_is_created_found_and_deleted(client: LangGraphClient) -> None:
    made = await client.assistants.create(
        "compiled",
        context={"tone": "formal"},
        metadata={"team": "garden", "tags": ["a"]},
        name="Formal one",
        description="Speaks formally",
    )
    assert (made["version"], made["graph_id"], made["name"]) == (1, "compiled", "Formal one")
    assert made["config"] == {} and made["context"] == {"tone": "formal"}
    assert await client.assistants.get(made["assistant_id"]) == made
    assert await client.assistants.search(name="formal", metadata={"team": "garden"}) == [made]
    assert await client.assistants.count(graph_id="compiled") == 2
    await client.assistants.delete(made["assistant_id"])
    with pytest.raises(NotFoundError):
        await client.assistants.get(made["assistant_id"])
    assert await client.assistants.search(metadata={"team": "garden"}) == []


async def test_an_id_of_ones_own_is_taken_once(client: LangGraphClient) -> None:
    chosen = str(uuid.uuid4())
    made = await client.assistants.create("sums", assistant_id=chosen, name="First")
    same = await client.assistants.create("sums", assistant_id=chosen, name="Second", if_exists="do_nothing")
    assert made["assistant_id"] == chosen and same == made
    with pytest.raises(ConflictError):
        await client.assistants.create("sums", assistant_id=chosen)
    with pytest.raises(ConflictError):
        await client.assistants.create("sums", assistant_id=assistant_id("agent"))
    default = await client.assistants.create(
        "sums", assistant_id=assistant_id("sums"), if_exists="do_nothing"
    )
    assert default["metadata"] == {"created_by": "system"}
    await client.assistants.delete(chosen)


async def test_each_change_is_a_version_that_stays_as_it_is(client: LangGraphClient) -> None:
    made = await client.assistants.create(
        "by_config", config={"configurable": {"word": "one"}, "tags": ["x"]}, metadata={"a": 1}
    )
    own = made["assistant_id"]
    second = await client.assistants.update(own, config={"configurable": {"word": "two"}}, metadata={"b": 2})
    assert (second["version"], second["metadata"], second["name"]) == (2, {"a": 1, "b": 2}, "Untitled")
    assert second["config"] == {"configurable": {"word": "two"}}
    assert await said(client, own) == "the word is two"
    first = await client.assistants.set_latest(own, 1)
    assert (first["version"], first["config"]["configurable"]) == (1, {"word": "one"})
    assert await said(client, own) == "the word is one"
    third = await client.assistants.update(own, graph_id="compiled", name="Third", context={"tone": "dry"})
    assert (third["version"], third["graph_id"], third["metadata"]) == (3, "compiled", {"a": 1})
    versions = await client.assistants.get_versions(own)
    assert [version["version"] for version in versions] == [3, 2, 1]
    assert versions[2]["config"] == {"configurable": {"word": "one"}, "tags": ["x"]}
    assert [v["version"] for v in await client.assistants.get_versions(own, metadata={"b": 2})] == [2]
    assert [v["version"] for v in await client.assistants.get_versions(own, limit=1, offset=1)] == [2]
    with pytest.raises(NotFoundError):
        await client.assistants.set_latest(own, 4)
    await client.assistants.delete(own)


async def test_a_run_has_its_own_before_the_assistants(client: LangGraphClient) -> None:
    made = await client.assistants.create(
        "compiled", context={"tone": "formal"}, metadata={"team": "garden", "kind": "assistant"}
    )
    own = made["assistant_id"]
    assert (await said(client, own)).startswith("[formal]")
    assert (await said(client, own, context={"tone": "dry"})).startswith("[dry]")
    thread = (await client.threads.create())["thread_id"]
    given = {"messages": [{"role": "user", "content": "Hello"}]}
    run = await client.runs.create(thread, own, input=given, metadata={"kind": "run"})
    await client.runs.join(thread, run["run_id"])
    assert run["assistant_id"] == own
    assert run["metadata"] == {"team": "garden", "kind": "run"}
    found = await client.threads.get(thread)
    assert (found["metadata"] or {}).items() >= {"graph_id": "compiled", "assistant_id": own}.items()
    await client.assistants.delete(own, delete_threads=True)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread)


async def test_the_runs_choice_of_a_model_comes_before_the_assistants(client: LangGraphClient) -> None:
    made = await client.assistants.create("agent", context={"model_name": "demo"})
    thread = (await client.threads.create())["thread_id"]
    given = {"messages": [{"role": "user", "content": "Hello"}]}
    refused = client.runs.create(
        thread, made["assistant_id"], input=given, config={"configurable": {"model_name": "nobody"}}
    )
    with pytest.raises(Exception, match="there is no model 'nobody'"):
        await refused
    await client.assistants.delete(made["assistant_id"])


async def test_assistants_are_sorted_paged_and_cut(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    made = [await client.assistants.create("sums", name=name) for name in ("Zoe", "Ada")]
    names = [a["name"] for a in await client.assistants.search(graph_id="sums")]
    assert names == ["Ada", "Zoe", "sums"]
    by_name = await client.assistants.search(
        graph_id="sums", sort_by="name", sort_order="desc", select=["name"]
    )
    assert sorted((a["name"] for a in by_name), reverse=True) == ["sums", "Zoe", "Ada"]
    page = await client.assistants.search(graph_id="sums", limit=2, response_format="object")
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    last = await http.post("/assistants/search", json={"graph_id": "sums", "offset": 2})
    assert last.headers["x-pagination-total"] == "3" and "x-pagination-next" not in last.headers
    for assistant in made:
        await client.assistants.delete(assistant["assistant_id"])


async def test_default_assistants_stay_as_they_are(http: httpx.AsyncClient) -> None:
    for method, path, body in (
        ("DELETE", "", None),
        ("PATCH", "", {"name": "Mine"}),
        ("POST", "/latest", {"version": 1}),
    ):
        answer = await http.request(method, f"/assistants/{assistant_id('sums')}{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "default_assistant")
    versions = await http.post("/assistants/sums/versions", json={})
    assert [version["version"] for version in versions.json()] == [1]


async def test_schemas_are_those_of_the_graph(client: LangGraphClient) -> None:
    schemas: Any = await client.assistants.get_schemas("compiled")
    assert schemas["graph_id"] == "compiled"
    for name in ("input_schema", "output_schema", "state_schema"):
        assert set(schemas[name]["properties"]) == {"messages", "turns"}
    assert schemas["context_schema"]["properties"]["tone"]["default"] == "plain"
    sums: Any = await client.assistants.get_schemas("sums")
    assert sums["input_schema"]["properties"]["numbers"] == {"type": "array", "items": {"type": "integer"}}
    assert sums["context_schema"] is None
    agent: Any = await client.assistants.get_schemas("agent")
    assert "messages" in agent["input_schema"]["properties"]
    assert "summary_text" in agent["state_schema"]["properties"]


async def test_graphs_are_drawn_from_outside_and_inside(client: LangGraphClient) -> None:
    outside: Any = await client.assistants.get_graph("asking")
    inside: Any = await client.assistants.get_graph("asking", xray=True)
    assert {"inner", "close"} <= {node["id"] for node in outside["nodes"]}
    assert {"source": "inner", "target": "close"} in outside["edges"]
    assert any("ask" in node["id"] for node in inside["nodes"])
    assert await client.assistants.get_graph("asking", xray=1) == inside


async def test_subgraphs_are_found_by_namespace(client: LangGraphClient) -> None:
    found: Any = await client.assistants.get_subgraphs("asking", recurse=True)
    assert set(found) == {"inner"}
    assert "answer" in found["inner"]["input_schema"]["properties"]
    assert await client.assistants.get_subgraphs("asking", namespace="inner") == found
    assert await client.assistants.get_subgraphs("compiled") == {}


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"graph_id": "nobody"}, 422, "body.graph_id: there is no graph 'nobody'; known: agent"),
    ({"graph_id": "sums", "assistant_id": "x"}, 422, "body.assistant_id"),
    ({"graph_id": "sums", "name": ""}, 422, "body.name"),
    ({"graph_id": "sums", "name": "n" * 257}, 422, "body.name"),
    ({"graph_id": "sums", "config": {"configurable": {"thread_id": "t"}}}, 422, "body.config"),
    (
        {"graph_id": "sums", "config": {"configurable": {"__pregel_x": 1}}},
        422,
        "body.config.configurable.__pregel_x",
    ),
    ({"graph_id": "sums", "config": {"colour": 1}}, 422, "body.config.colour"),
    (
        {"graph_id": "sums", "config": {"configurable": {"a": 1}}, "context": {"b": 1}},
        400,
        "config.configurable and",
    ),
    ({"graph_id": "sums", "more": 1}, 422, "body.more"),
    ({}, 422, "body.graph_id"),
]


@pytest.mark.parametrize(("body", "status", "named"), REFUSED)
async def test_what_cannot_be_is_refused(
    http: httpx.AsyncClient, body: dict[str, Any], status: int, named: str
) -> None:
    answer = await http.post("/assistants", json=body)
    assert (answer.status_code, answer.json()["detail"][: len(named)]) == (status, named)


async def test_unknown_names_are_422_and_unknown_ids_404(http: httpx.AsyncClient) -> None:
    for path in ("", "/schemas", "/graph", "/subgraphs"):
        assert (await http.get(f"/assistants/nobody{path}")).status_code == 422
        assert (await http.get(f"/assistants/{uuid.uuid4()}{path}")).status_code == 404
    assert (await http.get("/assistants/sums/subgraphs/nowhere")).status_code == 422
    assert (await http.get("/assistants/sums/graph", params={"xray": "much"})).status_code == 422


async def test_an_assistant_whose_graph_is_gone_says_so(
    gateway: Gateway, client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    made = await client.assistants.create("sums")
    async with gateway.core.database.pool.connection() as connection:
        await connection.execute(
            "UPDATE assistant_versions SET graph_id = 'gone' WHERE assistant_id = %s", (made["assistant_id"],)
        )
    thread = (await client.threads.create())["thread_id"]
    answer = await http.post(f"/threads/{thread}/runs", json={"assistant_id": made["assistant_id"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "graph_missing")
    assert (await client.assistants.get(made["assistant_id"]))["graph_id"] == "gone"
    await client.assistants.delete(made["assistant_id"])
