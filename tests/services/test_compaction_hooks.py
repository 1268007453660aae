"""``before_summarization`` hooks, and what the metrics count (rules F3, F4)."""

from __future__ import annotations

import dataclasses
import logging

import psycopg
import pytest

from app.errors import SummaryGenerationError
from app.persistence.database import Database
from app.ports import Prepared, SummarizationEvent
from tests.support.models import GOOD_SUMMARY, ScriptedModel
from tests.support.workbench import KEEP_TWO, Workbench


async def test_hooks_run_in_order_behind_the_summary_and_before_anything_is_archived(
    database: Database,
) -> None:
    seen: list[tuple[str, SummarizationEvent, int, int]] = []

    async def note(name: str, event: SummarizationEvent) -> None:
        records = await bench.records.page(event.thread_id, 10, None)
        seen.append((name, event, len(bench.model.prompts), len(records)))

    async def first(event: SummarizationEvent) -> None:
        await note("first", event)

    async def second(event: SummarizationEvent) -> None:
        await note("second", event)

    bench = Workbench(database, hooks=[first, second])
    thread_id, runtime = await bench.new_thread(), object()
    job = bench.job(thread_id, runtime=runtime)
    prepared = await bench.compactor.manual(job)
    assert isinstance(prepared, Prepared)
    assert [(name, calls, records) for name, _, calls, records in seen] == [("first", 1, 0), ("second", 1, 0)]
    assert seen[0][1] is seen[1][1]
    event = seen[0][1]
    assert (event.thread_id, event.agent_name, event.runtime) == (thread_id, "agent", runtime)
    assert event.removed == prepared.compaction.removed
    assert event.kept == prepared.compaction.kept
    assert [*event.removed, *event.kept] == job.context.messages
    assert len(await bench.records.page(thread_id, 10, None)) == 1


async def test_a_hook_cannot_change_what_is_compacted(database: Database) -> None:
    refused: list[str] = []

    async def meddle(event: SummarizationEvent) -> None:
        for name in ("removed", "kept", "thread_id"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(event, name, ())
            refused.append(name)
        assert isinstance(event.removed, tuple) and isinstance(event.kept, tuple)

    bench = Workbench(database, hooks=[meddle])
    assert isinstance(await bench.compactor.manual(bench.job(await bench.new_thread())), Prepared)
    assert refused == ["removed", "kept", "thread_id"]


async def test_a_hook_that_raises_is_logged_by_name_and_stops_nothing(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    later: list[str] = []

    async def flush_memory(event: SummarizationEvent) -> None:
        raise OSError("disk full")

    async def afterwards(event: SummarizationEvent) -> None:
        later.append(event.thread_id)

    bench = Workbench(database, hooks=[flush_memory, afterwards])
    thread_id = await bench.new_thread()
    with caplog.at_level(logging.ERROR):
        assert isinstance(await bench.compactor.manual(bench.job(thread_id)), Prepared)
    assert later == [thread_id]
    assert "flush_memory" in caplog.text
    assert "disk full" in caplog.text


@pytest.mark.parametrize("kind", ["manual", "auto", "overflow"])
async def test_hooks_run_on_every_path(database: Database, kind: str) -> None:
    seen: list[str] = []

    async def hook(event: SummarizationEvent) -> None:
        seen.append(event.agent_name)

    bench = Workbench(database, hooks=[hook])
    job = bench.job(await bench.new_thread(), kind=kind)
    path = {
        "manual": bench.compactor.manual,
        "auto": bench.compactor.automatic,
        "overflow": bench.compactor.recover,
    }[kind]
    assert isinstance(await path(job), Prepared)
    assert seen == ["agent"]


async def test_no_hook_runs_where_nothing_will_be_removed(database: Database) -> None:
    seen: list[str] = []

    async def hook(event: SummarizationEvent) -> None:
        seen.append(event.thread_id)

    bench = Workbench(database, ScriptedModel.saying(""), hooks=[hook])
    thread_id = await bench.new_thread()
    messages = bench.job(thread_id).context.messages
    await bench.compactor.manual(bench.job(thread_id, messages[:2]))
    with pytest.raises(SummaryGenerationError):
        await bench.compactor.manual(bench.job(thread_id))
    assert seen == []


def figure(bench: Workbench, name: str, **labels: str) -> float:
    return bench.registry.get_sample_value(f"threadkeep_compaction{name}", labels) or 0.0


async def test_metrics_count_a_compaction_when_it_is_committed_and_not_before(database: Database) -> None:
    bench = Workbench(database)
    thread_id = await bench.new_thread()
    prepared = await bench.compactor.manual(bench.job(thread_id))
    assert isinstance(prepared, Prepared)
    committed = {"kind": "manual", "outcome": "committed", "reason": ""}
    assert figure(bench, "s_total", **committed) == 0
    for _ in range(2):
        await bench.compactor.committed(thread_id, prepared.compaction_id, None, "c1")
    assert figure(bench, "s_total", **committed) == 1
    assert figure(bench, "_tokens_before_sum") == prepared.compaction.tokens_before
    assert figure(bench, "_tokens_after_sum") == prepared.compaction.tokens_after
    assert figure(bench, "_coverage_sum") == 1.0
    assert figure(bench, "_seconds_count") == 1
    assert figure(bench, "_fallbacks_total", kind="manual") == 0


async def test_metrics_name_the_reason_of_what_was_not_done(database: Database) -> None:
    bench = Workbench(database, ScriptedModel.saying("", GOOD_SUMMARY))
    thread_id = await bench.new_thread()
    with pytest.raises(SummaryGenerationError):
        await bench.compactor.manual(bench.job(thread_id))
    await bench.compactor.manual(bench.job(thread_id, bench.job(thread_id).context.messages[:2]))
    job = bench.job(thread_id, kind="overflow")
    prepared = await bench.compactor.recover(job)
    assert prepared
    await bench.compactor.abandon(job, prepared, "it did not fit")
    for kind, outcome, reason in (
        ("manual", "failed", "summary_generation_failed"),
        ("manual", "skipped", "not_enough_messages"),
        ("overflow", "failed", "not_committed"),
    ):
        assert figure(bench, "s_total", kind=kind, outcome=outcome, reason=reason) == 1


async def test_a_summary_of_the_second_model_counts_as_a_fallback(database: Database) -> None:
    bench = Workbench(
        database,
        ScriptedModel.saying("", GOOD_SUMMARY),
        KEEP_TWO.model_copy(update={"model_name": "first"}),
    )
    thread_id = await bench.new_thread()
    prepared = await bench.compactor.manual(bench.job(thread_id))
    assert isinstance(prepared, Prepared)
    await bench.compactor.committed(thread_id, prepared.compaction_id, None, "c1")
    assert figure(bench, "_fallbacks_total", kind="manual") == 1


async def test_a_history_that_would_break_is_not_committed_but_recorded(database: Database) -> None:
    bench = Workbench(database)
    thread_id = await bench.new_thread()
    messages = bench.job(thread_id).context.messages
    doubled = [messages[0], *messages]
    assert await bench.compactor.automatic(bench.job(thread_id, doubled, kind="auto")) is None
    assert await bench.compactor.recover(bench.job(thread_id, doubled, kind="overflow")) is None
    assert bench.model.prompts == []
    records = await bench.records.page(thread_id, 10, None)
    assert {(record.status, record.reason) for record in records} == {("failed", "compaction_invariant")}
    assert "used by two messages" in str(records[0].error)
    assert [event["status"] for event in bench.events] == ["failed", "failed"]


async def test_what_nobody_expected_is_recorded_counted_and_stops_no_run(database: Database) -> None:
    async with database.pool.connection() as conn:
        await conn.execute("ALTER TABLE archive_packs RENAME TO elsewhere")
    bench = Workbench(database)
    thread_id = await bench.new_thread()
    assert await bench.compactor.automatic(bench.job(thread_id, kind="auto")) is None
    assert await bench.compactor.recover(bench.job(thread_id, kind="overflow")) is None
    with pytest.raises(psycopg.Error):
        await bench.compactor.manual(bench.job(thread_id))
    assert [event["status"] for event in bench.events] == ["started", "failed"] * 3
    records = await bench.records.page(thread_id, 10, None)
    assert {(record.status, record.reason) for record in records} == {("failed", "internal_error")}
    assert "UndefinedTable" in str(records[0].error)
    assert (await bench.breakers.of_thread(thread_id)).failures == 1
