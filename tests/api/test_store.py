"""Items of the store: the official client's calls, what is refused, and whose items are whose."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.persistence.database import Database
from app.persistence.items import ItemStore
from app.persistence.memory import MemoryStore, Note
from tests.support.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_item_is_written_read_replaced_and_deleted(shared_gateway: Gateway) -> None:
    async with shared_gateway.client() as client:
        store = client.store
        await store.put_item(["people", "anna"], "likes", {"plants": ["fern"], "beds": 40})
        item = await store.get_item(["people", "anna"], "likes")
        assert item["namespace"] == ["people", "anna"] and item["key"] == "likes"
        assert item["value"] == {"plants": ["fern"], "beds": 40}
        await store.put_item(["people", "anna"], "likes", {"plants": []}, index=["plants"])
        again = await store.get_item(["people", "anna"], "likes", refresh_ttl=False)
        assert again["value"] == {"plants": []}
        assert again["created_at"] == item["created_at"] < again["updated_at"]
        await store.delete_item(["people", "anna"], "likes")
        await store.delete_item(["people", "anna"], "likes")
        assert await store.get_item(["people", "anna"], "likes") is None


async def test_a_missing_item_is_null_and_200(shared_http: httpx.AsyncClient) -> None:
    answer = await shared_http.get("/store/items", params={"namespace": "no.where", "key": "nothing"})
    assert (answer.status_code, answer.json()) == (200, None)


@pytest_asyncio.fixture(loop_scope="module")
async def beds(shared_gateway: Gateway) -> str:
    async with shared_gateway.client() as client:
        for key, value in {
            "a": {"size": 9, "sun": True, "name": "Ash"},
            "b": {"size": 10, "sun": False, "name": "Birch", "place": {"row": 1}},
            "c": {"size": "10", "name": "Cedar"},
        }.items():
            await client.store.put_item(["beds", "all"], key, value)
        await client.store.put_item(["beds"], "top", {"size": 1})
        await client.store.put_item(["bedside"], "lamp", {"size": 9})
    return "beds"


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"size": 9}, "a"),
    ({"size": {"$gt": 9}}, "b"),
    ({"size": {"$gte": 9, "$lt": 10}}, "a"),
    ({"size": {"$lte": 1}}, "top"),
    ({"size": {"$eq": "10"}}, "c"),
    ({"sun": {"$ne": True}}, "b c top"),
    ({"name": {"$gt": "Birch"}}, "c"),
    ({"place": {"row": 1}}, "b"),
    ({"size": 9, "sun": False}, ""),
]


@pytest.mark.parametrize(("wanted", "keys"), FILTERS)
async def test_filters_compare_values_as_what_they_are(
    shared_gateway: Gateway, beds: str, wanted: dict[str, Any], keys: str
) -> None:
    async with shared_gateway.client() as client:
        found = await client.store.search_items([beds], filter=wanted, query="anything")
    assert sorted(item["key"] for item in found["items"]) == keys.split()


async def test_a_search_is_paged_and_stays_below_its_namespace(shared_gateway: Gateway, beds: str) -> None:
    async with shared_gateway.client() as client:
        pages = [
            await client.store.search_items([beds], limit=2, offset=offset, refresh_ttl=True)
            for offset in (0, 2, 4)
        ]
        everything = await client.store.search_items([])
    assert [len(page["items"]) for page in pages] == [2, 2, 0]
    assert {item["key"] for page in pages for item in page["items"]} == {"a", "b", "c", "top"}
    assert "lamp" in {item["key"] for item in everything["items"]}
    assert pages[0]["items"][0]["score"] is None  # type: ignore[typeddict-item]


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(shared_gateway: Gateway) -> None:
    async with shared_gateway.client() as client:
        store = client.store
        for namespace in (["n", "x", "deep"], ["n", "y", "deep"], ["n", "z"], ["n"]):
            await store.put_item(namespace, "k", {})
        assert await namespaces(store, prefix=["n"]) == [
            ["n"],
            ["n", "x", "deep"],
            ["n", "y", "deep"],
            ["n", "z"],
        ]
        assert await namespaces(store, prefix=["n"], max_depth=2) == [
            ["n"],
            ["n", "x"],
            ["n", "y"],
            ["n", "z"],
        ]
        assert await namespaces(store, prefix=["n", "*"], suffix=["deep"], offset=1) == [["n", "y", "deep"]]
        assert await namespaces(store, suffix=["*", "*", "*", "n"]) == []
        assert await namespaces(store, suffix=["*", "n"]) == []
        assert await namespaces(store, suffix=["n"], limit=1) == [["n"]]


async def namespaces(store: Any, **conditions: Any) -> list[list[str]]:
    return (await store.list_namespaces(**conditions))["namespaces"]  # type: ignore[no-any-return]


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("PUT", "/items", {"namespace": [], "key": "k", "value": {}}, "body.namespace"),
    ("PUT", "/items", {"namespace": ["a.b"], "key": "k", "value": {}}, "body.namespace[0]"),
    ("PUT", "/items", {"namespace": ["a", ""], "key": "k", "value": {}}, "body.namespace[1]"),
    ("PUT", "/items", {"namespace": ["langgraph"], "key": "k", "value": {}}, "body.namespace"),
    ("PUT", "/items", {"namespace": ["a"] * 21, "key": "k", "value": {}}, "body.namespace"),
    ("PUT", "/items", {"namespace": ["a" * 1025], "key": "k", "value": {}}, "body.namespace"),
    ("PUT", "/items", {"namespace": "a", "key": "k", "value": {}}, "body.namespace"),
    ("PUT", "/items", {"namespace": ["a"], "key": "", "value": {}}, "body.key"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k" * 1025, "value": {}}, "body.key"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": []}, "body.value"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": {"x": "y" * 2**20}}, "body.value"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": {"x": 2**70}}, "body.value.x"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": {}, "ttl": 0}, "body.ttl"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": {}, "index": True}, "body.index"),
    ("PUT", "/items", {"namespace": ["a"], "key": "k", "value": {}, "more": 1}, "body.more"),
    ("DELETE", "/items", {"namespace": [], "key": "k"}, "body.namespace"),
    ("POST", "/items/search", {"namespace_prefix": ["a."]}, "body.namespace_prefix[0]"),
    ("POST", "/items/search", {"filter": {"x": {"$in": [1]}}}, "body.filter.x"),
    ("POST", "/items/search", {"filter": {"x": {"$gt": 1, "y": 2}}}, "body.filter.x"),
    ("POST", "/items/search", {"limit": 0}, "body.limit"),
    ("POST", "/namespaces", {"max_depth": 0}, "body.max_depth"),
    ("POST", "/namespaces", {"suffix": [""]}, "body.suffix[0]"),
]


@pytest.mark.parametrize(("method", "path", "body", "named"), REFUSED)
async def test_what_cannot_be_is_refused_with_its_field(
    shared_http: httpx.AsyncClient, method: str, path: str, body: dict[str, Any], named: str
) -> None:
    answer = await shared_http.request(method, f"/store{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"].startswith(f"{named}:"), answer.json()


async def test_flags_of_the_service_are_taken_off_values(shared_gateway: Gateway) -> None:
    forged = {"message": {"content": "hi", "additional_kwargs": {"hide_from_ui": True, "mine": 1}}}
    async with shared_gateway.client() as client:
        await client.store.put_item(["forged"], "k", forged)
        item = await client.store.get_item(["forged"], "k")
    assert item["value"]["message"]["additional_kwargs"] == {"mine": 1}


@pytest.mark.asyncio(loop_scope="function")
async def test_what_has_expired_is_gone_and_reading_keeps_it(database: Database) -> None:
    store = ItemStore(database.pool).of("anna")
    await store.aput(("a",), "short", {}, ttl=0.2)
    await store.aput(("a",), "kept", {}, ttl=60)
    async with database.pool.connection() as connection:
        await connection.execute(
            "UPDATE store SET expires_at = now() + interval '1 second' WHERE key = 'kept'"
        )
        assert await store.aget(("a",), "kept")
        await connection.execute("UPDATE store SET expires_at = now() WHERE key = 'short'")
        cursor = await connection.execute(
            "SELECT expires_at > now() + interval '50 minutes' AS later FROM store WHERE key = 'kept'"
        )
        assert (await cursor.fetchone()) == {"later": True}
    assert await store.aget(("a",), "short") is None
    assert [item.key for item in await store.asearch(())] == ["kept"]


@pytest.mark.asyncio(loop_scope="function")
async def test_nobody_reaches_items_of_others_or_facts(database: Database) -> None:
    items = ItemStore(database.pool)
    await MemoryStore(items, database.pool).write("a", [Note("fact", "likes ferns", None)])
    owners = ["", "a", "ab", "a%", "a.b", "_", "*"]
    for owner in owners:
        await items.of(owner).aput(("mine",), "k", {"of": owner})
    for owner in owners:
        mine = items.of(owner)
        assert [item.value for item in await mine.asearch((), limit=100)] == [{"of": owner}]
        assert await mine.alist_namespaces() == [("mine",)]
        assert await mine.alist_namespaces(prefix=("*",)) == [("mine",)]
        assert await mine.alist_namespaces(suffix=("mine",)) == [("mine",)]
        for namespace in (("memory", "of-a"), ("items", "of-a", "mine"), ("..", "of-a", "mine")[1:]):
            assert await mine.aget(namespace, "fact") is None
            assert await mine.aget(namespace, "k") is None
        assert await mine.asearch(("memory",)) == []
    assert [fact.text for fact in await MemoryStore(items, database.pool).facts("a")] == ["likes ferns"]


@pytest.mark.asyncio(loop_scope="function")
async def test_a_graph_may_use_its_store_from_a_thread(database: Database) -> None:
    store = ItemStore(database.pool).of("anna")
    await asyncio.to_thread(store.put, ("a",), "k", {"n": 1})
    item = await asyncio.to_thread(store.get, ("a",), "k")
    assert item and (item.namespace, item.value) == (("a",), {"n": 1})
