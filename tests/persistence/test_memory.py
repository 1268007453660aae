"""Facts by owner, and what was read for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.postgres.aio import AsyncPostgresStore

from app.persistence.database import Database
from app.persistence.memory import MemoryStore, Note, namespace_of
from app.persistence.threads import ThreadStore


@pytest.fixture
async def store(database: Database) -> AsyncIterator[MemoryStore]:
    pool: Any = database.pool
    yield MemoryStore(AsyncPostgresStore(pool), pool)


async def keys(store: MemoryStore, owner: str) -> list[str]:
    return [fact.key for fact in await store.facts(owner)]


async def test_facts_are_written_corrected_and_forgotten(store: MemoryStore) -> None:
    await store.write("ann", [Note("name", "Anna", "t1"), Note("city", "Rome", None, edited=True)])
    (before,) = [fact for fact in await store.facts("ann") if fact.key == "name"]
    await store.write("ann", [Note("name", "Anna B.", "t2")], ["city", "nothing"])
    (after,) = await store.facts("ann")
    assert (after.key, after.text, after.thread_id, after.edited) == ("name", "Anna B.", "t2", False)
    assert after.created_at == before.created_at < after.updated_at
    assert await store.get("ann", "city") is None


@pytest.mark.parametrize("owner", ["", "ann", "ann.b@example.org", "a.b", "ann%", "ann_", "of-", "Ännchen/1"])
async def test_nobody_sees_the_facts_of_another(store: MemoryStore, owner: str) -> None:
    others = ["", "ann", "ann.b@example.org", "a", "a.b", "annx", "an", "b"]
    for other in others:
        await store.write(other, [Note(f"of-{number}", "x", None) for number in range(3)])
    await store.write(owner, [], await keys(store, owner))
    await store.write(owner, [Note("mine", "x", None)])
    assert await keys(store, owner) == ["mine"]
    for other in set(others) - {owner}:
        assert len(await keys(store, other)) == 3


def test_every_owner_has_a_namespace_that_the_store_takes() -> None:
    owners = ["", ".", "a.b", "a%2Eb", "a/b", "ä"]
    labels = [namespace_of(owner)[1] for owner in owners]
    assert len(set(labels)) == len(owners)
    assert all(label and "." not in label for label in labels)


async def test_the_newest_facts_come_first_and_all_of_them(store: MemoryStore) -> None:
    await store.write("", [Note(f"k{number:03}", "x", None) for number in range(150)])
    await store.write("", [Note("k000", "y", None)])
    listed = await keys(store, "")
    assert len(listed) == 150
    assert listed[0] == "k000"


async def test_a_message_is_read_once_until_its_words_change(store: MemoryStore, database: Database) -> None:
    pool: Any = database.pool
    threads = ThreadStore(pool)
    await threads.create("t", "", {})
    await threads.create("u", "", {})
    first, second = HumanMessage("a", id="1"), HumanMessage("b", id="2")
    await store.mark_read("t", [first])
    await store.mark_read("t", [first])
    assert await store.unread("t", [first, second]) == [second]
    assert await store.unread("u", [first]) == [first]
    assert await store.unread("t", [HumanMessage("a", id="1__user")]) == []
    edited = HumanMessage("c", id="1")
    assert await store.unread("t", [edited]) == [edited]


async def test_nothing_is_marked_of_a_thread_that_is_gone(store: MemoryStore) -> None:
    await store.mark_read("gone", [HumanMessage("a", id="1")])
    assert await store.unread("gone", [HumanMessage("a", id="1")]) != []
