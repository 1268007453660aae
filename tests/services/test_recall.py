"""Finding what compactions removed: on a real database, through the real service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from app.errors import InvalidInput, NotFound
from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.database import Database
from app.persistence.recall import RecallStore
from app.persistence.threads import ThreadStore
from app.services.recall.index import RecallIndexer
from app.services.recall.service import RecallService
from app.services.recall.words import query_of


class Archive:
    """Threads whose messages are archived without any model."""

    def __init__(self, database: Database) -> None:
        self.pool: Any = database.pool
        self.store = RecallStore(self.pool)
        self.indexer = RecallIndexer(self.store, period_s=0.05)
        self.recall = RecallService(self.store, ArchiveStore(self.pool), self.indexer)
        self.records = CompactionStore(self.pool)

    async def thread(self) -> str:
        thread_id = str(uuid4())
        await ThreadStore(self.pool).create(thread_id, "", {})
        return thread_id

    async def compact(
        self, thread_id: str, removed: Sequence[BaseMessage], previous: str | None = None, ns: str = ""
    ) -> str:
        record = CompactionRecord(
            str(uuid4()), thread_id, None, "manual", "committing", checkpoint_ns=ns, previous_id=previous
        )
        await self.records.begin(record, removed, [message.id or "" for message in removed])
        return record.compaction_id

    async def search(
        self, thread_id: str, query: str, compaction: str | None, live: Sequence[BaseMessage] = ()
    ) -> list[str]:
        found = await self.recall.search(thread_id, state(compaction, live), query, 8)
        assert found.complete
        return [past.reference for past in found.messages]

    async def count(self, table: str, thread_id: str) -> int:
        async with self.pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT count(*) AS n FROM {table} WHERE thread_id = %s", (thread_id,)
            )
            return int((await cursor.fetchone())["n"])


def state(compaction: str | None, live: Sequence[BaseMessage] = ()) -> dict[str, Any]:
    return {"messages": list(live), "compaction": {"compaction_id": compaction} if compaction else None}


@pytest.fixture
def archive(database: Database) -> Archive:
    return Archive(database)


def said(*texts: str) -> list[BaseMessage]:
    return [HumanMessage(text, id=f"m{number}") for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    "query",
    [
        "retry_budget",
        "retry budget",
        "RetryBudget",
        "billing.worker:RetryBudget",
        "src/billing/worker.py",
        "billing/worker.py",
        "https://x.example/a?id=77",
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "ORA-00942",
        "40213",
        "会议记录",
        "リトライ回数",
        "재시도",
        "trybudg",
        "retry_bugdet",
        "for (i = 0; i < n; i++)",
        "größe",
        "ＯＲＡ-00942",
    ],
)
async def test_names_code_numbers_misspellings_and_every_script_find_their_message(
    archive: Archive, query: str
) -> None:
    thread_id = await archive.thread()
    bodies = [
        "class RetryBudget lives in billing.worker:RetryBudget, retry_budget is its name; see src/billing/worker.py,"
        " https://x.example/a?id=77 and 6f9619ff-8b86-d011-b42d-00c04fc964ff. ORA-00942 is code 40213."
        " 会议记录在这里。リトライ回数を確認。 재시도를 확인합니다. for (i = 0; i < n; i++) Größe",
        *(f"Nothing of interest in number {number}, the weather is fine" for number in range(30)),
    ]
    compaction = await archive.compact(thread_id, said(*bodies))
    found = await archive.search(thread_id, query, compaction)
    assert found[0] == "m0"


@pytest.mark.parametrize(
    "query",
    ["100%", "a_b", r"back\slash 'quote'", '"; DROP TABLE threads; --', "%' OR 1=1", "{x} & !y | (z)", ":*"],
)
async def test_marks_of_sql_mean_nothing(archive: Archive, query: str) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("quite another matter", f"it says: {query} ."))
    try:
        found = await archive.search(thread_id, query, compaction)
    except InvalidInput:
        assert query == ":*"
        return
    assert found in (["m1"], [])
    assert "m0" not in found


@pytest.mark.parametrize("query", ["", "  ", "?!…", "x" * 10_000])
async def test_nothing_to_look_for_and_too_much_are_refused(archive: Archive, query: str) -> None:
    with pytest.raises(InvalidInput, match=r"^query: "):
        await archive.search(await archive.thread(), query, None)


async def test_other_threads_are_never_found(archive: Archive) -> None:
    mine, other = await archive.thread(), await archive.thread()
    compaction = await archive.compact(mine, said("my own zebra"))
    foreign = await archive.compact(other, [HumanMessage("the zebra of somebody else", id="secret")])
    assert await archive.search(mine, "zebra", compaction) == ["m0"]
    # Not even with the other thread's compaction as the end of the chain.
    assert await archive.search(mine, "somebody else", foreign) == []
    for reference in ("secret", f"{other}/secret", "%", "m_", "' OR true --"):
        with pytest.raises(NotFound):
            await archive.recall.read(mine, state(compaction), reference)


async def test_only_the_branch_of_the_head_is_found(archive: Archive) -> None:
    thread_id = await archive.thread()
    root = await archive.compact(thread_id, [HumanMessage("zebra at the root", id="root")])
    left = await archive.compact(thread_id, [HumanMessage("zebra on the left", id="left")], root)
    right = await archive.compact(thread_id, [HumanMessage("zebra on the right", id="right")], root)
    assert sorted(await archive.search(thread_id, "zebra", left)) == ["left", "root"]
    assert sorted(await archive.search(thread_id, "zebra", right)) == ["right", "root"]
    assert await archive.search(thread_id, "zebra", None) == []
    with pytest.raises(NotFound):
        await archive.recall.read(thread_id, state(right), "left")


async def test_what_two_branches_removed_is_found_on_both(archive: Archive) -> None:
    thread_id = await archive.thread()
    shared = [HumanMessage("zebra in common", id="shared")]
    left = await archive.compact(thread_id, shared)
    right = await archive.compact(thread_id, shared)
    assert await archive.search(thread_id, "zebra", left) == ["shared"]
    assert await archive.search(thread_id, "zebra", right) == ["shared"]


async def test_what_the_agent_still_sees_is_not_past(archive: Archive) -> None:
    thread_id = await archive.thread()
    messages = said("the old zebra", "the zebra that came back")
    compaction = await archive.compact(thread_id, messages)
    assert await archive.search(thread_id, "zebra", compaction, live=messages[1:]) == ["m0"]


async def test_people_are_not_shown_what_is_hidden_from_them(archive: Archive) -> None:
    thread_id = await archive.thread()
    hidden = HumanMessage("a hidden zebra", id="hidden", additional_kwargs={"hide_from_ui": True})
    also = HumanMessage("a zebra, hidden too", id="also", additional_kwargs={"hide_from_ui": True})
    compaction = await archive.compact(thread_id, [hidden, *said("an open zebra")])
    found, _ = await archive.recall.find(thread_id, state(compaction, [also]), query_of("zebra"), 9)
    assert [each.said.message_id for each in found] == ["m0"]
    assert sorted(await archive.search(thread_id, "zebra", compaction)) == ["hidden", "m0"]


async def test_the_conversation_of_a_subagent_is_not_found(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("our zebra"))
    await archive.compact(thread_id, [HumanMessage("zebra of the subagent", id="sub")], ns="tools:1")
    assert await archive.search(thread_id, "zebra", compaction) == ["m0"]


async def test_results_of_the_search_do_not_stand_before_the_originals(archive: Archive) -> None:
    thread_id = await archive.thread()
    call = {"name": "search_history", "id": "c", "args": {"query": "zebra_key"}}
    messages: list[BaseMessage] = [
        ToolMessage("zebra_key = 7 and much else, line by line", id="r", name="read_file", tool_call_id="x"),
        AIMessage("", id="a", tool_calls=[call]),
        ToolMessage("zebra_key zebra_key", id="t", name="search_history", tool_call_id="c"),
        ToolMessage("zebra_key zebra_key", id="u", name="read_history", tool_call_id="d"),
    ]
    compaction = await archive.compact(thread_id, messages)
    assert await archive.search(thread_id, "zebra_key", compaction) == ["r"]


async def test_a_huge_result_is_found_by_its_first_and_its_last_word(archive: Archive) -> None:
    thread_id = await archive.thread()
    body = (
        "first_word "
        + " ".join(f"entry_of_the_log {number % 999}" for number in range(250_000))
        + " last_word"
    )
    assert len(body) > 5_000_000
    compaction = await archive.compact(thread_id, [ToolMessage(body, id="big", name="run", tool_call_id="c")])
    for query in ("first_word", "last_word"):
        found = await archive.recall.search(thread_id, state(compaction), query, 3)
        assert [past.reference for past in found.messages] == ["big"]
        assert query in found.messages[0].text
        assert len(found.messages[0].text) < 400


@pytest.mark.parametrize("odd", ["\0", "\ud800", "a\0b\udfff", "\\u0000", "\x01\x02\u2028"])
async def test_odd_characters_neither_fail_a_compaction_nor_hide_the_rest(archive: Archive, odd: str) -> None:
    thread_id = await archive.thread()
    message = HumanMessage(f"before {odd} zebra after", id=str(uuid4()), additional_kwargs={"x": odd})
    compaction = await archive.compact(thread_id, [message])
    found = await archive.recall.search(thread_id, state(compaction), f"zebra {odd}", 3)
    assert len(found.messages) == 1
    found.messages[0].text.encode()


async def test_everything_is_read_again_by_reference_and_by_id(archive: Archive) -> None:
    thread_id = await archive.thread()
    message_id = str(uuid4())
    compaction = await archive.compact(thread_id, [HumanMessage("zebra\n  in two lines", id=message_id)])
    found = await archive.recall.search(thread_id, state(compaction), "zebra", 3)
    reference = found.messages[0].reference
    assert len(reference) == 10
    for name in (reference, message_id):
        past = await archive.recall.read(thread_id, state(compaction), name)
        assert past.text == "zebra\n  in two lines"
        assert past.speaker == "user"


async def test_a_live_message_is_read_as_it_is_now(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("as it was"))
    live = [HumanMessage("as it is", id="m0")]
    assert (await archive.recall.read(thread_id, state(compaction, live), "m0")).text == "as it is"


async def test_what_waits_is_indexed_in_the_background_and_needs_no_search(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("a zebra", "a horse"))
    await archive.records.committed(thread_id, compaction, None, "checkpoint")
    assert await archive.count("archive_packs", thread_id) == 1
    assert await archive.count("recall_words", thread_id) == 0
    archive.indexer.start()
    async with asyncio.timeout(10):
        while not await archive.count("recall_words", thread_id):
            await asyncio.sleep(0.02)
    await archive.indexer.stop()
    assert await archive.count("recall_words", thread_id) == 2


async def test_many_searches_at_once_index_everything_once(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said(*(f"zebra number_{n}" for n in range(350))))
    found = await asyncio.gather(
        *(archive.search(thread_id, f"number_{n}", compaction) for n in (3, 99, 200, 349))
    )
    assert [each[0] for each in found] == ["m3", "m99", "m200", "m349"]
    assert await archive.count("recall_words", thread_id) == 350
    assert await archive.count("recall_pending", thread_id) == 0


async def test_archiving_again_adds_nothing(archive: Archive) -> None:
    thread_id = await archive.thread()
    messages = said("a zebra", "a horse")
    first = await archive.compact(thread_id, messages)
    await archive.search(thread_id, "zebra", first)
    second = await archive.compact(thread_id, messages, first)
    assert await archive.count("recall_pending", thread_id) == 0
    assert await archive.search(thread_id, "zebra", second) == ["m0"]


async def test_rows_from_before_the_index_are_found(archive: Archive) -> None:
    """As the migration leaves them: waiting."""
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("an old zebra"))
    await archive.store.sort_in(thread_id)
    async with archive.pool.connection() as conn:
        await conn.execute("UPDATE archived_messages SET original = NULL WHERE thread_id = %s", (thread_id,))
    assert await archive.search(thread_id, "zebra", compaction) == ["m0"]


async def test_words_of_erased_messages_are_gone_and_the_others_stay_findable(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("the zebra_secret", "the horse_open"))
    assert await archive.search(thread_id, "zebra_secret", compaction) == ["m0"]
    async with archive.pool.connection() as conn:
        await conn.execute(
            "DELETE FROM archived_messages WHERE thread_id = %s AND message_id = 'm0'", (thread_id,)
        )
    assert await archive.search(thread_id, "horse_open", compaction) == ["m1"]
    assert await archive.search(thread_id, "zebra_secret", compaction) == []
    async with archive.pool.connection() as conn:
        for table, column in (("recall_words", "words::text"), ("recall_terms", "term")):
            cursor = await conn.execute(f"SELECT 1 FROM {table} WHERE {column} LIKE '%zebra%'")
            assert await cursor.fetchone() is None


async def test_nothing_of_a_deleted_thread_is_left(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("a zebra"))
    await archive.search(thread_id, "zebra", compaction)
    await archive.compact(thread_id, [HumanMessage("later", id="later")], compaction)
    async with archive.pool.connection() as conn:
        await conn.execute("DELETE FROM threads WHERE thread_id = %s", (thread_id,))
    for table in ("recall_words", "recall_terms", "recall_pending"):
        assert await archive.count(table, thread_id) == 0


async def test_a_message_that_is_no_message_hinders_nobody(archive: Archive) -> None:
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, said("a zebra", "broken"))
    await archive.store.sort_in(thread_id)
    async with archive.pool.connection() as conn:
        await conn.execute(
            "UPDATE archived_messages SET message = %s WHERE thread_id = %s AND message_id = 'm1'",
            (json.dumps(["no", "object"]), thread_id),
        )
    assert await archive.search(thread_id, "zebra", compaction) == ["m0"]
