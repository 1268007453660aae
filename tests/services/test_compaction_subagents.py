"""What the compactor keeps of a conversation inside a run, apart from the thread's own (rules E3, F1, F3, F4)."""

from __future__ import annotations

import pytest

from app.compaction.types import Skipped
from app.persistence.database import Database
from app.ports import AgentKind, CompactionJob, Prepared, SummarizationEvent
from tests.support.models import ScriptedModel
from tests.support.workbench import Workbench

INSIDE = "tools:6d3d2d4e-0000-4000-8000-000000000001"


async def committed(bench: Workbench, job: CompactionJob) -> Prepared:
    prepared = await bench.compactor.manual(job)
    assert not isinstance(prepared, Skipped)
    await bench.compactor.committed(job.thread_id, prepared.compaction_id, None, "checkpoint")
    return prepared


async def last_of_thread(database: Database, thread_id: str) -> str | None:
    async with database.pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT last_compaction_id FROM threads WHERE thread_id = %s", (thread_id,)
        )
        row = await cursor.fetchone()
        return row and row["last_compaction_id"] and str(row["last_compaction_id"])  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("kind", ["lead", "subagent"])
async def test_a_hook_is_told_whose_conversation_it_is(database: Database, kind: AgentKind) -> None:
    events: list[SummarizationEvent] = []

    async def hook(event: SummarizationEvent) -> None:
        events.append(event)

    bench = Workbench(database, hooks=[hook])
    job = bench.job(await bench.new_thread(), agent_name="mole", agent_kind=kind)
    await bench.compactor.manual(job)
    assert [(event.agent_kind, event.agent_name) for event in events] == [(kind, "mole")]


async def test_a_record_is_listed_with_those_of_its_own_conversation(database: Database) -> None:
    bench = Workbench(database)
    thread_id = await bench.new_thread()
    own = await committed(bench, bench.job(thread_id))
    inside = await committed(bench, bench.job(thread_id, checkpoint_ns=INSIDE, agent_name="mole"))
    (listed,) = await bench.records.page(thread_id, 10, None)
    assert (listed.compaction_id, listed.checkpoint_ns) == (own.compaction_id, "")
    (listed,) = await bench.records.page(thread_id, 10, None, INSIDE)
    assert (listed.compaction_id, listed.agent_name) == (inside.compaction_id, "mole")
    found = await bench.records.get(thread_id, inside.compaction_id)
    assert found and found.checkpoint_ns == INSIDE
    assert await last_of_thread(database, thread_id) == own.compaction_id


async def test_the_same_messages_removed_in_two_conversations_are_archived_for_each(
    database: Database,
) -> None:
    """A subagent's messages may have the ids of the thread's: neither archive loses any by that."""
    bench = Workbench(database)
    thread_id = await bench.new_thread()
    inside = await committed(bench, bench.job(thread_id, checkpoint_ns=INSIDE))
    own = await committed(bench, bench.job(thread_id))
    for prepared in (inside, own):
        archived = await bench.records.removed_messages(thread_id, prepared.compaction_id)
        assert len(archived) == len(prepared.compaction.removed) > 0
    async with database.pool.connection() as conn:
        query = "SELECT checkpoint_ns, count(*) AS n FROM archived_messages GROUP BY checkpoint_ns ORDER BY 1"
        rows = await (await conn.execute(query)).fetchall()
    assert [(row["checkpoint_ns"], row["n"]) for row in rows] == [  # type: ignore[call-overload]
        ("", len(own.compaction.removed)),
        (INSIDE, len(inside.compaction.removed)),
    ]


async def test_failures_inside_wait_for_themselves_and_for_nobody_else(database: Database) -> None:
    bench = Workbench(database, ScriptedModel.saying(""))
    thread_id = await bench.new_thread()
    inside = bench.job(thread_id, checkpoint_ns=INSIDE, kind="auto")
    for _ in range(5):
        assert await bench.compactor.automatic(inside) is None
    assert [event["status"] for event in bench.events] == ["started", "failed"] * 3
    breaker = await bench.breakers.within(thread_id, INSIDE, 3, 30.0, 1800.0)
    assert (breaker.failures, breaker.waiting) == (3, True)
    assert breaker.retry_at and breaker.last_error
    assert (await bench.breakers.of_thread(thread_id)).failures == 0
    other = await bench.breakers.within(thread_id, "tools:other", 3, 30.0, 1800.0)
    assert (other.failures, other.waiting, other.retry_at) == (0, False, None)


async def test_a_success_inside_ends_the_waiting_inside_and_not_that_of_the_thread(
    database: Database,
) -> None:
    bench = Workbench(database, ScriptedModel.saying(""))
    thread_id = await bench.new_thread()
    for namespace in ("", INSIDE):
        for _ in range(3):
            await bench.compactor.automatic(bench.job(thread_id, checkpoint_ns=namespace, kind="auto"))
    working = Workbench(database)
    await committed(working, working.job(thread_id, checkpoint_ns=INSIDE))
    assert (await bench.breakers.within(thread_id, INSIDE, 3, 30.0, 1800.0)).failures == 0
    assert (await bench.breakers.of_thread(thread_id)).failures == 3
