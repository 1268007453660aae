"""Finding threads."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from app.persistence.database import connect
from tests.support.gateway import Gateway


@pytest.fixture
async def threads(client: LangGraphClient) -> list[dict[str, Any]]:
    """Five threads, oldest first."""
    return [
        dict(
            await client.threads.create(
                metadata={"n": n, "parity": "odd" if n % 2 else "even", "tags": {"x": n}}
            )
        )
        for n in range(5)
    ]


def numbers(found: list[Any]) -> list[int]:
    return [thread["metadata"]["n"] for thread in found]


async def test_the_last_changed_thread_comes_first(client: LangGraphClient, threads: list[Any]) -> None:
    await client.threads.update(threads[1]["thread_id"], metadata={})
    assert numbers(await client.threads.search()) == [1, 4, 3, 2, 0]


async def test_threads_can_be_sorted_either_way(client: LangGraphClient, threads: list[Any]) -> None:
    found = await client.threads.search(sort_by="created_at", sort_order="asc")
    assert numbers(found) == [0, 1, 2, 3, 4]
    by_id = await client.threads.search(sort_by="thread_id", sort_order="desc")
    ids = [thread["thread_id"] for thread in by_id]
    assert ids == sorted(ids, reverse=True)


async def test_metadata_has_to_contain_what_is_asked_for(client: LangGraphClient, threads: list[Any]) -> None:
    assert numbers(await client.threads.search(metadata={"parity": "odd"})) == [3, 1]
    assert numbers(await client.threads.search(metadata={"tags": {"x": 2}, "parity": "even"})) == [2]
    assert await client.threads.search(metadata={"parity": "neither"}) == []
    assert await client.threads.count(metadata={"parity": "even"}) == 3
    assert await client.threads.count() == 5


async def test_threads_can_be_named_by_id(client: LangGraphClient, threads: list[Any]) -> None:
    ids = [threads[0]["thread_id"], threads[3]["thread_id"].upper(), "00000000-0000-4000-8000-000000000000"]
    assert numbers(await client.threads.search(ids=ids)) == [3, 0]


async def test_pages_say_how_many_there_are_and_where_the_next_begins(
    http: httpx.AsyncClient, threads: list[Any]
) -> None:
    first = await http.post("/threads/search", json={"limit": 2, "offset": 0})
    last = await http.post("/threads/search", json={"limit": 2, "offset": 4})
    assert first.headers["X-Pagination-Total"] == "5"
    assert first.headers["X-Pagination-Next"] == "2"
    assert numbers(last.json()) == [0]
    assert "X-Pagination-Next" not in last.headers


async def test_a_search_without_a_body_finds_the_first_ten(
    http: httpx.AsyncClient, threads: list[Any]
) -> None:
    assert numbers((await http.post("/threads/search")).json()) == [4, 3, 2, 1, 0]


async def test_values_are_the_live_state_unless_they_are_not_selected(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    await client.threads.update_state(
        thread["thread_id"], {"messages": [{"type": "human", "content": "hi", "id": "h1"}]}
    )
    [whole] = await client.threads.search()
    [narrow] = await client.threads.search(select=["thread_id", "status", "context"])
    assert whole["values"]["messages"][0]["content"] == "hi"
    assert narrow == {"thread_id": thread["thread_id"], "status": "idle", "context": {}}


async def test_parts_of_a_thread_can_be_extracted_by_path(client: LangGraphClient) -> None:
    thread = await client.threads.create(metadata={"a": {"b": [1, 2]}})
    await client.threads.update_state(thread["thread_id"], {"messages": ["one", "two"]})
    [found] = await client.threads.search(
        select=["thread_id"],
        extract={
            "last": "values.messages[-1].content",
            "second": "metadata.a.b[1]",
            "none": "values.messages[7].content",
            "odd": "metadata.a.b.c",
        },
    )
    assert found["extracted"] == {"last": "two", "second": 2, "none": None, "odd": None}
    assert found.keys() == {"thread_id", "extracted"}


async def test_a_list_of_titles_reads_no_state(idle_gateway: Gateway, client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, {"title": "Lighthouses", "messages": []})
    async with await connect(idle_gateway.core.database.url) as connection:
        await connection.execute("DELETE FROM checkpoints WHERE thread_id = %s", (thread_id,))
    found: Any = await client.threads.search(
        ids=[thread_id], select=["thread_id"], extract={"title": "values.title", "todos": "values.todos"}
    )
    assert found == [{"thread_id": thread_id, "extracted": {"title": "Lighthouses", "todos": None}}]


async def test_a_value_too_large_for_a_list_is_read_from_the_state(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    todos = [{"content": "x" * 9_000, "status": "pending"}]
    await client.threads.update_state(thread_id, {"todos": todos})
    found: Any = await client.threads.search(
        ids=[thread_id], select=["thread_id"], extract={"todos": "values.todos[0].content"}
    )
    assert found == [{"thread_id": thread_id, "extracted": {"todos": "x" * 9_000}}]
