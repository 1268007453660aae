"""What a compaction removes is written down in haste; sorted into the archive it is what it would have been at once."""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from types import ModuleType
from typing import Any

import psycopg
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)

from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.copies import CopyStore
from app.persistence.database import Database
from app.persistence.discretion import Discretion
from app.persistence.drafts import DraftStore
from app.persistence.encoding import decode, dump_all, encode, load_all
from app.persistence.packs import unpack
from app.persistence.pins import PinStore
from app.persistence.recall import RecallStore
from app.persistence.sizes import stored_bytes
from app.persistence.threads import ThreadStore
from app.redaction import Redactor
from app.services.recall.index import RecallIndexer
from tests.persistence.test_archive import ODD
from tests.support.canaries import tables_with

LONG = [HumanMessage(f"number {number}", id=f"m{number}") for number in range(1203)]
UNUSUAL: Sequence[BaseMessage] = (
    HumanMessage("extra fields", id="extra", colour="red", deep={"k": [1, (2,)]}),
    ToolMessage("r", id="object", tool_call_id="c", artifact={"message": HumanMessage("inside")}),
    RemoveMessage(id="other-class"),
)


class Table:
    """A thread, and what the database holds of its archive."""

    def __init__(self, database: Database, thread_id: str) -> None:
        self.pool, self.thread_id = database.pool, thread_id
        self.records, self.archive = CompactionStore(database.pool), ArchiveStore(database.pool)

    async def begin(self, messages: Sequence[BaseMessage], compaction_id: str = "", **named: Any) -> str:
        record = CompactionRecord(
            compaction_id or str(uuid.uuid4()), self.thread_id, None, "manual", "committing"
        )
        await self.records.begin(record, messages, [message.id for message in messages], **named)
        return record.compaction_id

    async def commit(self, compaction_id: str) -> None:
        await self.records.committed(self.thread_id, compaction_id, None, "checkpoint")

    async def removed(self, compaction_id: str) -> list[str | None]:
        found = await self.archive.removed(self.thread_id, compaction_id)
        return [message.id if message else None for _, _, message in found]

    async def column(self, query: str, *parameters: Any) -> list[Any]:
        async with self.pool.connection() as conn:
            cursor = await conn.execute(query.encode(), (self.thread_id, *parameters))
            return [next(iter(row.values())) for row in await cursor.fetchall()]

    async def change(self, statement: str) -> None:
        async with self.pool.connection() as conn:
            await conn.execute(statement.encode(), (self.thread_id,))

    async def packs(self) -> int:
        [count] = await self.column("SELECT count(*) FROM archive_packs WHERE thread_id = %s")
        return int(count)

    async def stuck(self) -> int:
        """Wait until a connection waits for a lock, and return its process."""
        while not (found := await self.column(_STUCK)):
            await asyncio.sleep(0.01)
        return int(found[0])


_STUCK = """
SELECT pid FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database() AND %s::text IS NOT NULL
"""
_HOLD = "SELECT 1 FROM compactions WHERE thread_id = %s FOR UPDATE"


@pytest.fixture
async def table(database: Database) -> AsyncIterator[Table]:
    thread_id = str(uuid.uuid4())
    await ThreadStore(database.pool).create(thread_id, "", {})
    yield Table(database, thread_id)


@pytest.mark.parametrize("message", [*ODD, *UNUSUAL], ids=lambda message: str(message.id))
def test_a_packed_message_is_archived_like_the_one_at_hand(message: BaseMessage) -> None:
    packed = dump_all([message])
    assert packed is not None
    ((message_id, unpacked),) = load_all(packed)
    at_hand = encode(message)
    assert message_id == message.id
    assert (unpacked.text, unpacked.digest) == (at_hand.text, at_hand.digest)
    assert at_hand.original is not None and unpacked.original is not None
    assert repr(decode(unpacked.original)) == repr(decode(at_hand.original))


async def test_a_message_whose_class_is_gone_when_it_is_sorted_is_archived_like_the_others(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("a_graph_of_somebody")
    own = type("Own", (HumanMessage,), {"__module__": module.__name__})
    with monkeypatch.context() as there:
        there.setattr(module, "Own", own, raising=False)
        there.setitem(sys.modules, module.__name__, module)
        message = own("from a class of its own", id="own")
        made = encode(message)
        compaction_id = await table.begin([*LONG[:2], message])
    await unpack(table.pool, table.thread_id)
    assert await table.packs() == 0
    found = [(id, digest) for id, digest, _ in await table.archive.removed(table.thread_id, compaction_id)]
    assert found[2] == ("own", made.digest) and len(found) == 3
    stored = "SELECT original FROM archived_messages WHERE thread_id = %s AND message_id = 'own'"
    assert await table.column(stored) == [made.original]


async def test_an_id_that_no_index_can_hold_fails_the_compaction_and_not_the_archive(table: Table) -> None:
    endless = HumanMessage("hello", id=random.Random(5).randbytes(3000).hex())
    with pytest.raises(psycopg.OperationalError, match="index row"):
        await table.begin([*LONG[:2], endless])
    assert await table.removed(await table.begin(LONG[:2])) == ["m0", "m1"]


async def test_large_messages_are_in_packs_of_their_own(table: Table) -> None:
    large = [HumanMessage("much " * 1_200_000, id=f"large{number}") for number in range(3)]
    messages = [*LONG[:3], *large, *LONG[3:6]]
    compaction_id = await table.begin(messages)
    sizes = await table.column("SELECT length(messages) FROM archive_packs WHERE thread_id = %s")
    assert len(sizes) == 4 and max(sizes) < 10_000_000
    assert await table.removed(compaction_id) == [message.id for message in messages]


@pytest.mark.parametrize("originals", [True, False])
async def test_where_originals_are_not_wanted_a_pack_has_no_secret_either(
    table: Table, originals: bool
) -> None:
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    table.records = CompactionStore(table.pool, Discretion(Redactor(), archive_originals=originals))
    call = {"name": "f", "args": {"env": [key]}, "id": "c"}
    messages = [
        HumanMessage(f"with {key}", id="text", note=key),
        AIMessage("", id="calls", tool_calls=[call], response_metadata={"headers": {"x": key}}),
        AIMessageChunk(
            content="", id="pieces", tool_call_chunks=[{"name": "f", "args": key, "id": "c", "index": 0}]
        ),
        ToolMessage("r", id="result", tool_call_id="c", artifact={"seen": key}),
    ]
    compaction_id = await table.begin(messages)
    assert await table.packs() == 1
    async with table.pool.connection() as conn:
        found = await tables_with(conn, key)
    assert found == ({"archive_packs"} if originals else set())
    await table.removed(compaction_id)
    async with table.pool.connection() as conn:
        found = await tables_with(conn, key)
    assert found == ({"archived_messages"} if originals else set())


async def test_nothing_is_sorted_before_somebody_reads_and_nothing_waits_after_that(table: Table) -> None:
    compaction_id = await table.begin(LONG)
    ids = [message.id for message in LONG]
    assert await table.packs() == 3
    assert await table.column("SELECT 1 FROM archived_messages WHERE thread_id = %s") == []
    assert (await stored_bytes(table.pool, table.thread_id)).archive > sum(len(m.text) for m in LONG)
    assert await table.removed(compaction_id) == ids
    assert await table.packs() == 0
    ordered = "SELECT message_id FROM archived_messages WHERE thread_id = %s ORDER BY position"
    assert await table.column(ordered) == ids
    noted = "SELECT unnest(removed_digests) FROM compactions WHERE thread_id = %s"
    assert await table.column(noted) == [encode(message).digest for message in LONG]


async def test_many_who_read_at_once_sort_everything_once(table: Table) -> None:
    made = [await table.begin(LONG[start : start + 300]) for start in (0, 300, 600)]
    await asyncio.gather(*(unpack(table.pool, table.thread_id) for _ in range(8)))
    for number, compaction_id in enumerate(made):
        expected = [message.id for message in LONG[number * 300 : number * 300 + 300]]
        assert await table.removed(compaction_id) == expected
    assert await table.column("SELECT count(*) FROM archived_messages WHERE thread_id = %s") == [900]


async def test_who_is_killed_while_sorting_leaves_all_of_it_to_the_next(table: Table) -> None:
    compaction_id = await table.begin(LONG[:5])
    async with table.pool.connection() as other, other.transaction():
        await other.execute(_HOLD, (table.thread_id,))
        sorting = asyncio.create_task(unpack(table.pool, table.thread_id))
        process = await table.stuck()
        await other.execute("SELECT pg_terminate_backend(%s)", (process,))
        with pytest.raises(psycopg.OperationalError):
            await sorting
    assert await table.packs() == 1
    assert await table.removed(compaction_id) == [message.id for message in LONG[:5]]


async def test_a_thread_that_is_deleted_meanwhile_is_gone(table: Table) -> None:
    await table.begin(LONG[:5])
    async with table.pool.connection() as other, other.transaction():
        await other.execute("DELETE FROM threads WHERE thread_id = %s", (table.thread_id,))
        sorting = asyncio.create_task(unpack(table.pool, table.thread_id))
        await table.stuck()
    await sorting
    for name in ("archive_packs", "archived_messages", "compactions", "recall_pending"):
        assert await table.column(f"SELECT 1 FROM {name} WHERE thread_id = %s") == []


@pytest.mark.parametrize("while_sorting", [False, True])
async def test_a_copy_has_what_waits_to_be_sorted(
    database: Database, table: Table, while_sorting: bool
) -> None:
    compaction_id = await table.begin(LONG[:700])
    copy, holder = Table(database, str(uuid.uuid4())), str(uuid.uuid4())
    reserve = (
        "UPDATE threads SET reserved_by = %s, reserved_until = now() + interval '1 hour' WHERE thread_id = %s"
    )
    copies = CopyStore(table.pool)
    async with table.pool.connection() as conn:
        await conn.execute(reserve, (holder, table.thread_id))
    await copies.begin(copy.thread_id, "", holder, 3600)
    finish = copies.finish(table.thread_id, holder, copy.thread_id, holder)
    async with asyncio.timeout(20):
        if while_sorting:
            assert await asyncio.gather(unpack(table.pool, table.thread_id), finish) == [None, True]
        else:
            assert await finish
            assert await copy.packs() == await table.packs() == 2
    for each in (copy, table):
        assert await each.removed(compaction_id) == [message.id for message in LONG[:700]]


@pytest.mark.parametrize("sorted_before", [False, True])
async def test_a_record_that_is_made_anew_has_its_messages_once(table: Table, sorted_before: bool) -> None:
    """As a draft that is applied again after its first application was cut off."""
    compaction_id = await table.begin(LONG[:700])
    await table.records.abandon(table.thread_id, compaction_id, "cut off")
    if sorted_before:
        await unpack(table.pool, table.thread_id)
    taking = DraftStore(table.pool).taking(table.thread_id, compaction_id)
    await table.begin(LONG[:700], compaction_id, first=taking)
    assert await table.packs() == 2
    assert await table.removed(compaction_id) == [message.id for message in LONG[:700]]
    assert await table.column(
        "SELECT cardinality(removed_digests) FROM compactions WHERE thread_id = %s"
    ) == [700]


async def test_a_record_made_anew_while_it_is_being_sorted_waits_and_has_its_messages_once(
    table: Table,
) -> None:
    compaction_id = await table.begin(LONG[:700])
    await table.records.abandon(table.thread_id, compaction_id, "cut off")
    taking = DraftStore(table.pool).taking(table.thread_id, compaction_id)
    async with asyncio.timeout(20):
        await asyncio.gather(
            unpack(table.pool, table.thread_id), table.begin(LONG[:700], compaction_id, first=taking)
        )
    assert await table.removed(compaction_id) == [message.id for message in LONG[:700]]


async def test_messages_of_one_that_failed_belong_to_the_one_that_is_committed(table: Table) -> None:
    failed = await table.begin(LONG[:3])
    await table.records.abandon(table.thread_id, failed, "no state was written")
    committed = await table.begin(LONG[:3])
    await table.commit(committed)
    assert await table.removed(committed) == ["m0", "m1", "m2"]
    owners = "SELECT DISTINCT compaction_id::text FROM archived_messages WHERE thread_id = %s"
    assert await table.column(owners) == [committed]


async def test_in_the_background_only_what_is_decided_is_sorted(table: Table) -> None:
    store = RecallStore(table.pool)
    compaction_id = await table.begin(LONG[:3])
    assert await store.threads_behind(10) == []
    await table.commit(compaction_id)
    assert await store.threads_behind(10) == [table.thread_id]
    await store.sort_in(table.thread_id)
    assert await table.packs() == 0
    assert await store.is_behind(table.thread_id)


async def test_threads_do_not_wait_for_one_that_cannot_be_sorted(database: Database, table: Table) -> None:
    await table.commit(await table.begin(LONG[:3]))
    for _ in range(5):
        broken = Table(database, str(uuid.uuid4()))
        await ThreadStore(database.pool).create(broken.thread_id, "", {})
        await broken.commit(await broken.begin(LONG[:3]))
        await broken.change("UPDATE archive_packs SET messages = 'no messages' WHERE thread_id = %s")
    indexer = RecallIndexer(RecallStore(database.pool), period_s=0.01)
    indexer.start()
    try:
        async with asyncio.timeout(10):
            while await table.packs():
                await asyncio.sleep(0.01)
    finally:
        await indexer.stop()
    assert await broken.packs() == 1


async def test_beside_what_no_checkpoint_can_hold_nothing_is_packed(table: Table) -> None:
    wide = AIMessage("", id="wide", tool_calls=[{"name": "f", "args": {"n": 2**70}, "id": "c"}])
    compaction_id = await table.begin([*LONG[:600], wide])
    assert await table.packs() == 0
    assert await table.removed(compaction_id) == [*(message.id for message in LONG[:600]), "wide"]


async def test_a_message_that_waits_to_be_sorted_is_known_to_be_archived(table: Table) -> None:
    await table.commit(await table.begin(LONG[:3]))
    claim = await PinStore(table.pool).claim(table.thread_id, "m1")
    assert claim and claim.archived and not claim.leaving
    assert await table.packs() == 1
