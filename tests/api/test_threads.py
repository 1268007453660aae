"""Threads over HTTP: what the official client does, and what a person with curl does."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.support.gateway import Gateway

HELLO = {"messages": [{"role": "user", "content": "hello"}]}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def idle_gateway(shared_gateway: Gateway) -> Gateway:
    """Every test has a thread of its own, so one service does for all of them."""
    return shared_gateway


@pytest.fixture
def http(shared_http: httpx.AsyncClient) -> httpx.AsyncClient:
    return shared_http


async def pending_run(client: LangGraphClient, thread_id: str) -> dict[str, Any]:
    """A run that stays pending, since no worker is there."""
    return dict(await client.runs.create(thread_id, "agent", input=HELLO))


async def test_a_new_thread_is_idle_and_empty(client: LangGraphClient) -> None:
    created = await client.threads.create(metadata={"user": "ann"}, graph_id="agent")
    assert created["status"] == "idle"
    assert created["values"] == {}
    assert created["interrupts"] == {}
    assert created["metadata"] == {"user": "ann", "graph_id": "agent"}
    assert await client.threads.get(created["thread_id"]) == created
    assert created["created_at"] == created["updated_at"]
    assert str(created["created_at"]).endswith("+00:00")


async def test_a_thread_keeps_the_id_it_is_given_in_lower_case(client: LangGraphClient) -> None:
    chosen = str(uuid.uuid4())
    created = await client.threads.create(thread_id=chosen.upper())
    assert created["thread_id"] == chosen
    assert (await client.threads.get(chosen.upper()))["thread_id"] == chosen


async def test_an_id_can_be_taken_once(client: LangGraphClient) -> None:
    first = await client.threads.create(metadata={"n": 1})
    with pytest.raises(ConflictError, match="exists already"):
        await client.threads.create(thread_id=first["thread_id"])
    again = await client.threads.create(
        thread_id=first["thread_id"], if_exists="do_nothing", metadata={"n": 2}
    )
    assert again["metadata"] == {"n": 1}


async def test_many_creating_the_same_thread_at_once_get_the_same_thread(client: LangGraphClient) -> None:
    chosen = str(uuid.uuid4())
    created = await asyncio.gather(
        *(client.threads.create(thread_id=chosen, if_exists="do_nothing") for _ in range(8))
    )
    assert {thread["created_at"] for thread in created} == {created[0]["created_at"]}


async def test_a_thread_can_be_created_without_a_body(http: httpx.AsyncClient) -> None:
    response = await http.post("/threads")
    assert response.status_code == 200
    assert uuid.UUID(response.json()["thread_id"])


async def test_fields_without_effect_are_accepted(client: LangGraphClient) -> None:
    thread = await client.threads.create(ttl=60)
    thread_id = thread["thread_id"]
    await client.threads.create(ttl={"ttl": 5, "strategy": "keep_latest"})
    await client.threads.update(thread_id, metadata={}, ttl=5)
    assert (await client.threads.get(thread_id, include=["ttl"]))["thread_id"] == thread_id


async def test_a_patch_merges_metadata_key_by_key(client: LangGraphClient) -> None:
    thread = await client.threads.create(metadata={"a": 1, "b": {"c": 1}})
    patched = await client.threads.update(thread["thread_id"], metadata={"b": 2, "d": None})
    assert patched["metadata"] == {"a": 1, "b": 2, "d": None}
    assert patched["updated_at"] > thread["updated_at"]


async def test_a_patch_that_wants_nothing_back_gets_nothing(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    assert await client.threads.update(thread["thread_id"], metadata={"a": 1}, return_minimal=True) is None
    assert (await client.threads.get(thread["thread_id"]))["metadata"] == {"a": 1}


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_unknown_thread_is_not_found(http: httpx.AsyncClient, method: str) -> None:
    unknown = str(uuid.uuid4())
    response = await http.request(method, f"/threads/{unknown}", json={} if method == "PATCH" else None)
    assert response.status_code == 404
    assert response.json() == {"detail": f"There is no thread {unknown}", "code": "not_found"}


async def test_a_thread_is_busy_exactly_while_a_run_is_open(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    run = await pending_run(client, thread["thread_id"])
    assert (await client.threads.get(thread["thread_id"]))["status"] == "busy"
    ids = [thread["thread_id"]]
    assert [found["status"] for found in await client.threads.search(ids=ids, status="busy")] == ["busy"]
    assert await client.threads.search(ids=ids, status="idle") == []
    await client.runs.cancel(thread["thread_id"], run["run_id"])
    assert (await client.threads.get(thread["thread_id"]))["status"] == "idle"


async def test_a_deleted_thread_takes_everything_with_it(
    idle_gateway: Gateway, client: LangGraphClient
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, HELLO)
    run = await pending_run(client, thread_id)
    await client.threads.delete(thread_id)

    for request in (
        client.threads.get(thread_id),
        client.threads.get_state(thread_id),
        client.threads.get_history(thread_id),
        client.threads.update_state(thread_id, HELLO),
        client.threads.delete(thread_id),
        client.runs.get(thread_id, run["run_id"]),
        client.runs.create(thread_id, "agent", input=HELLO),
    ):
        with pytest.raises(NotFoundError):
            await request
    assert await leftovers(idle_gateway, thread_id) == {}
    again = await client.threads.create(thread_id=thread_id)
    assert again["values"] == {}
    assert (await client.threads.get_state(thread_id))["values"] == {}


async def leftovers(gateway: Gateway, thread_id: str) -> dict[str, int]:
    """Rows of a thread in every table that has a column for it."""
    found = {}
    async with gateway.core.database.pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT table_name AS name FROM information_schema.columns "
            "WHERE column_name = 'thread_id' AND table_schema = 'public'"
        )
        for table in await cursor.fetchall():
            count = await conn.execute(
                f'SELECT count(*) AS n FROM "{table["name"]}" WHERE thread_id = %s', (thread_id,)
            )
            row = await count.fetchone()
            if row and row["n"]:
                found[table["name"]] = row["n"]
    return found


async def test_a_thread_that_is_being_deleted_is_gone_for_everybody_and_can_be_deleted_again(
    idle_gateway: Gateway, client: LangGraphClient
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, HELLO)
    async with idle_gateway.core.database.pool.connection() as conn:
        await conn.execute("UPDATE threads SET deleted_at = now() WHERE thread_id = %s", (thread_id,))

    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    with pytest.raises(NotFoundError):
        await client.runs.create(thread_id, "agent", input=HELLO)
    with pytest.raises(NotFoundError):
        await client.threads.update_state(thread_id, HELLO)
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread_id, if_exists="do_nothing")
    assert await client.threads.search(ids=[thread_id]) == []
    await client.threads.delete(thread_id)
    assert await leftovers(idle_gateway, thread_id) == {}


async def test_an_unfinished_deletion_is_finished_at_the_next_start(
    idle_gateway: Gateway, client: LangGraphClient
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, HELLO)
    async with idle_gateway.core.database.pool.connection() as conn:
        await conn.execute("UPDATE threads SET deleted_at = now() WHERE thread_id = %s", (thread_id,))
    await idle_gateway.core.services.threads.finish_deletions()
    assert await leftovers(idle_gateway, thread_id) == {}


async def test_a_deletion_that_fails_is_reported_and_can_be_repeated(
    idle_gateway: Gateway, client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, HELLO)
    async with idle_gateway.core.database.pool.connection() as conn:
        await conn.execute("ALTER TABLE checkpoints RENAME TO checkpoints_away")
        try:
            assert (await http.delete(f"/threads/{thread_id}")).status_code == 500
            await idle_gateway.core.services.threads.finish_deletions()
            assert (await http.get(f"/threads/{thread_id}")).status_code == 404
        finally:
            await conn.execute("ALTER TABLE checkpoints_away RENAME TO checkpoints")
    assert (await http.delete(f"/threads/{thread_id}")).status_code == 204
    assert await leftovers(idle_gateway, thread_id) == {}


def superstep(node: str, *contents: str) -> dict[str, Any]:
    messages = [{"type": "ai", "content": content, "id": content} for content in contents]
    return {"updates": [{"values": {"messages": messages}, "as_node": node}]}


async def test_a_thread_is_created_with_the_history_of_another(client: LangGraphClient) -> None:
    thread = await client.threads.create(
        supersteps=[superstep("__start__", "a"), superstep("model", "b", "c")]
    )
    history = await client.threads.get_history(thread["thread_id"])
    contents = [[message["content"] for message in state["values"]["messages"]] for state in history]
    assert contents == [["a", "b", "c"], ["a"]]
    assert [message["content"] for message in thread["values"]["messages"]] == ["a", "b", "c"]
    assert thread == await client.threads.get(thread["thread_id"])


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (superstep("nowhere", "b"), "supersteps[1].updates[0].as_node: the graph has no node 'nowhere'"),
        (
            {"updates": [{"values": {"mood": 1}, "as_node": "model"}]},
            "supersteps[1].updates[0].values.mood: the state has no such key",
        ),
        (
            {"updates": [{"values": {"summary_text": "x"}, "as_node": "model"}]},
            "supersteps[1].updates[0].values.summary_text: only the service itself",
        ),
    ],
)
async def test_a_history_that_does_not_fit_leaves_no_thread(
    http: httpx.AsyncClient, step: dict[str, Any], problem: str
) -> None:
    chosen = str(uuid.uuid4())
    body = {"thread_id": chosen, "supersteps": [superstep("__start__", "a"), step]}
    response = await http.post("/threads", json=body)
    assert response.status_code == 422
    assert problem in response.json()["detail"]
    assert (await http.get(f"/threads/{chosen}")).status_code == 404


async def test_an_existing_thread_gets_no_other_history(client: LangGraphClient) -> None:
    thread = await client.threads.create(supersteps=[superstep("__start__", "a")])
    again = await client.threads.create(
        thread_id=thread["thread_id"], if_exists="do_nothing", supersteps=[superstep("__start__", "b")]
    )
    assert [message["content"] for message in again["values"]["messages"]] == ["a"]
