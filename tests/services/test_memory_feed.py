"""What is queued to be read, before a compaction removes it (rule F3)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from app.persistence.database import Database
from app.persistence.memory_queue import MemoryQueue
from app.persistence.queue import WorkerSettings
from app.persistence.runs import RunStore
from app.ports import SummarizationEvent
from app.services.memory.feed import MemoryFeed
from tests.compaction.build import ai, hidden, human, result


@pytest.fixture
async def feed(database: Database) -> MemoryFeed:
    pool: Any = database.pool
    queue = MemoryQueue(pool, WorkerSettings(), 60.0)
    await queue.open()
    return MemoryFeed(RunStore(pool), queue)


def event(removed: list[BaseMessage], kept: list[BaseMessage], **fields: Any) -> SummarizationEvent:
    return SummarizationEvent(
        "t", "agent", tuple(removed), tuple(kept), compaction_id="c", model_name="m", **fields
    )


async def queued(database: Database) -> list[dict[str, Any]]:
    async with database.pool.connection() as conn:
        cursor = await conn.execute("SELECT args FROM procrastinate_jobs ORDER BY id")
        return [row["args"] for row in await cursor.fetchall()]


async def test_the_job_says_where_the_words_are_and_how_the_conversation_went_on(
    feed: MemoryFeed, database: Database
) -> None:
    kept = [human("older", id="o"), human("now", id="q__user"), ai("", "c1"), result("c1"), hidden()]
    await feed.before_summarization(event([human("I like tea"), ai()], kept))
    assert await queued(database) == [
        {"thread_id": "t", "model_name": "m", "compaction_id": "c", "question_id": "q__user"}
    ]


async def test_nothing_is_queued_when_the_person_said_nothing_of_it(
    feed: MemoryFeed, database: Database
) -> None:
    await feed.before_summarization(
        event([ai("", "c1"), result("c1", "I like tea"), hidden("note")], [human()])
    )
    assert await queued(database) == []


async def test_a_subagents_conversation_is_not_about_the_person(feed: MemoryFeed, database: Database) -> None:
    await feed.before_summarization(event([human("I like tea")], [human()], agent_kind="subagent"))
    assert await queued(database) == []


async def test_a_run_that_is_unknown_or_did_not_end_well_is_no_turn(
    feed: MemoryFeed, database: Database
) -> None:
    executed: list[str] = []

    async def execute(run_id: str) -> None:
        executed.append(run_id)

    await feed.after(execute)("00000000-0000-4000-8000-000000000000")
    await feed.after(execute)("no id at all")
    assert len(executed) == 2
    assert await queued(database) == []
