"""One writer per thread."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress

import pytest

from app.errors import NotFound, ThreadBusy
from app.persistence.database import Database
from app.persistence.threads import ThreadStore
from app.services.threads.reservations import Reservations


@pytest.fixture
def store(database: Database) -> ThreadStore:
    return ThreadStore(database.pool)


@pytest.fixture
async def thread_id(store: ThreadStore) -> str:
    created = await store.create(str(uuid.uuid4()), "", {})
    assert created
    return created.thread_id


async def insert_run(database: Database, thread_id: str, status: str) -> None:
    async with database.pool.connection() as conn:
        await conn.execute(
            """INSERT INTO runs (run_id, thread_id, assistant_id, status, kwargs, multitask_strategy)
               VALUES (%s, %s, 'agent', %s, '{}', 'enqueue')""",
            (uuid.uuid4(), thread_id, status),
        )


async def test_a_thread_is_held_by_one_at_a_time(store: ThreadStore, thread_id: str) -> None:
    reservations = Reservations(store)
    async with reservations.hold("", thread_id):
        with pytest.raises(ThreadBusy):
            async with reservations.hold("", thread_id):
                pytest.fail("two writers hold the thread")
    async with reservations.hold("", thread_id) as held:
        await held.confirm()


async def test_of_many_that_ask_at_once_exactly_one_holds_the_thread(
    store: ThreadStore, thread_id: str
) -> None:
    inside, most, served = 0, 0, 0

    async def write() -> None:
        nonlocal inside, most, served
        async with Reservations(store).hold("", thread_id):
            inside += 1
            most, served = max(most, inside), served + 1
            await asyncio.sleep(0)
            inside -= 1

    results = await asyncio.gather(*(write() for _ in range(20)), return_exceptions=True)
    assert most == 1
    assert served >= 1
    assert all(result is None or isinstance(result, ThreadBusy) for result in results)


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_a_thread_with_an_open_run_is_not_held(
    database: Database, store: ThreadStore, thread_id: str, status: str
) -> None:
    await insert_run(database, thread_id, status)
    with pytest.raises(ThreadBusy, match="pending or running"):
        async with Reservations(store).hold("", thread_id):
            pytest.fail("held in spite of a run")


async def test_a_finished_run_is_in_nobodys_way(
    database: Database, store: ThreadStore, thread_id: str
) -> None:
    await insert_run(database, thread_id, "success")
    async with Reservations(store).hold("", thread_id) as held:
        await held.confirm()


async def test_a_run_that_is_being_inserted_is_seen(
    database: Database, store: ThreadStore, thread_id: str
) -> None:
    """A run is admitted under the lock of the thread's row: a reservation waits for it and then sees it."""
    async with database.pool.connection() as conn, conn.transaction():
        await conn.execute("SELECT 1 FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
        asked = asyncio.create_task(store.reserve(thread_id, "", str(uuid.uuid4()), 10))
        await until_somebody_waits_for_a_lock(database)
        await conn.execute(
            """INSERT INTO runs (run_id, thread_id, assistant_id, status, kwargs, multitask_strategy)
               VALUES (%s, %s, 'agent', 'pending', '{}', 'enqueue')""",
            (uuid.uuid4(), thread_id),
        )
    assert await asked == "active_run"


async def until_somebody_waits_for_a_lock(database: Database) -> None:
    async with asyncio.timeout(10), database.pool.connection() as conn:
        while True:
            cursor = await conn.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
            if await cursor.fetchone():
                return
            await asyncio.sleep(0.01)


async def test_a_thread_that_is_not_there_or_not_ones_own_is_not_found(
    store: ThreadStore, thread_id: str
) -> None:
    for owner, wanted in (("", str(uuid.uuid4())), ("somebody", thread_id)):
        with pytest.raises(NotFound):
            async with Reservations(store).hold(owner, wanted):
                pytest.fail("held a thread that is not there")


async def test_a_thread_that_is_being_deleted_is_not_found(store: ThreadStore, thread_id: str) -> None:
    assert await store.begin_deletion(thread_id, "") is None
    with pytest.raises(NotFound):
        async with Reservations(store).hold("", thread_id):
            pytest.fail("held a thread that is being deleted")


async def test_a_held_thread_is_not_deleted(store: ThreadStore, thread_id: str) -> None:
    async with Reservations(store).hold("", thread_id):
        assert await store.begin_deletion(thread_id, "") == "reserved"
    assert await store.begin_deletion(thread_id, "") is None


async def test_a_holder_that_died_is_waited_for_only_until_its_time_is_over(
    store: ThreadStore, thread_id: str
) -> None:
    assert await store.reserve(thread_id, "", str(uuid.uuid4()), 0.3) is None
    assert await store.reserve(thread_id, "", str(uuid.uuid4()), 0.3) == "reserved"
    async with asyncio.timeout(5):
        while await store.reserve(thread_id, "", str(uuid.uuid4()), 0.3):
            await asyncio.sleep(0.02)


async def test_a_slow_holder_keeps_its_thread(store: ThreadStore, thread_id: str) -> None:
    async with Reservations(store, ttl_s=0.3).hold("", thread_id) as held:
        for _ in range(10):
            await asyncio.sleep(0.1)
            assert await store.reserve(thread_id, "", str(uuid.uuid4()), 1) == "reserved"
        await held.confirm()


async def test_a_holder_that_lost_its_thread_is_told_before_it_writes(
    store: ThreadStore, thread_id: str
) -> None:
    other = str(uuid.uuid4())
    async with Reservations(store).hold("", thread_id) as held:
        await store.release(thread_id, held.holder)
        assert await store.reserve(thread_id, "", other, 10) is None
        with pytest.raises(ThreadBusy, match="taken over"):
            await held.confirm()
    assert await store.extend(thread_id, other, 10), "the loser must not release what is not its own"


async def test_a_thread_is_released_when_its_holder_fails_or_is_cancelled(
    store: ThreadStore, thread_id: str
) -> None:
    reservations = Reservations(store)
    with suppress(LookupError):
        async with reservations.hold("", thread_id):
            raise LookupError
    inside = asyncio.Event()

    async def hold() -> None:
        async with reservations.hold("", thread_id):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    async with reservations.hold("", thread_id) as held:
        await held.confirm()
