"""The archive gives back what a thread's state held, exactly."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from app.compaction.timeline import Place, Removal
from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.database import Database
from app.persistence.encoding import decode, digest_of, encode
from app.persistence.packs import unpack
from app.persistence.threads import ThreadStore

ODD: Sequence[BaseMessage] = (
    HumanMessage("nul \0, line\u2028separator, 𝄞", id="nul"),
    HumanMessage("half \ud83d of a character", id="half"),
    HumanMessage([{"type": "text", "text": "a"}, "b", {"type": "image", "data": b"\0\xff"}], id="blocks"),
    AIMessage(
        "",
        id="calls",
        tool_calls=[{"name": "read", "args": {"path": "a", "n": [1, {"x": None}]}, "id": "c1"}],
        invalid_tool_calls=[
            {"name": "bad", "args": "{", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
        ],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"logprobs": [-0.5, float("inf")], "model_name": "m"},
    ),
    ToolMessage(
        "r", id="result", tool_call_id="c1", status="error", artifact={"at": datetime(2026, 1, 1, tzinfo=UTC)}
    ),
    ToolMessage("r", id="pair", tool_call_id="c1", artifact=("not", "a list")),
    ToolMessage("r", id="error", tool_call_id="c1", artifact=ValueError("an object of a tool")),
    SystemMessage("s", id="flags", additional_kwargs={"hide_from_ui": True, "set": {1}, 1: "number"}),
    AIMessageChunk(content="chunk", id="chunk", tool_call_chunks=[]),
    HumanMessage("named", id="named", name="anna"),
)


def checkpointed(message: BaseMessage) -> BaseMessage:
    """The message as it is after a step of a graph."""
    serializer = JsonPlusSerializer()
    read: BaseMessage = serializer.loads_typed(serializer.dumps_typed(message))
    return read


async def archived(database: Database, messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """A thread and its one compaction, which removed the messages."""
    store, thread_id, compaction_id = CompactionStore(database.pool), str(uuid.uuid4()), str(uuid.uuid4())
    await ThreadStore(database.pool).create(thread_id, "", {})
    record = CompactionRecord(compaction_id, thread_id, None, "manual", "committing")
    await store.begin(record, messages, [message.id for message in messages])
    return thread_id, compaction_id


@pytest.mark.parametrize("message", ODD, ids=lambda message: str(message.id))
async def test_a_message_comes_back_as_a_checkpoint_would_give_it_back(
    database: Database, message: BaseMessage
) -> None:
    thread_id, compaction_id = await archived(database, [message])
    ((message_id, digest, back),) = await ArchiveStore(database.pool).removed(thread_id, compaction_id)
    expected = checkpointed(message)
    assert (message_id, type(back), repr(back)) == (message.id, type(expected), repr(expected))
    assert digest == digest_of(message) == digest_of(expected)


async def test_the_json_is_that_of_the_state_and_of_the_record(database: Database) -> None:
    thread_id, compaction_id = await archived(database, ODD)
    store = ArchiveStore(database.pool)
    found = await store.at(thread_id, [Place(str(message.id), compaction_id) for message in ODD])
    texts = await CompactionStore(database.pool).removed_messages(thread_id, compaction_id)
    assert [found[Place(str(message.id), compaction_id)].text for message in ODD] == texts
    assert [encode(checkpointed(message)).text for message in ODD] == texts
    assert [json.loads(text)["id"] for text in texts] == [message.id for message in ODD]


async def test_what_was_archived_before_there_were_originals_comes_back_from_its_json(
    database: Database,
) -> None:
    plain = [message for message in ODD if message.id in ("nul", "calls", "named", "chunk", "flags")][:3]
    thread_id, compaction_id = await archived(database, plain)
    await unpack(database.pool, thread_id)
    async with database.pool.connection() as conn:
        await conn.execute("UPDATE archived_messages SET original = NULL WHERE thread_id = %s", (thread_id,))
    removed = await ArchiveStore(database.pool).removed(thread_id, compaction_id)
    for message, (_, digest, back) in zip(plain, removed, strict=True):
        assert isinstance(back, type(message))
        assert (back.content, back.id, back.name) == (message.content, message.id, message.name)
        assert digest_of(back) == digest


async def test_a_message_that_no_checkpoint_can_hold_is_archived_as_json(database: Database) -> None:
    wide = AIMessage("", id="wide", tool_calls=[{"name": "f", "args": {"n": 2**70}, "id": "c"}])
    assert encode(wide).original is None
    thread_id, compaction_id = await archived(database, [wide])
    ((_, _, back),) = await ArchiveStore(database.pool).removed(thread_id, compaction_id)
    assert back == wide


async def test_an_erased_message_is_known_to_be_missing(database: Database) -> None:
    thread_id, compaction_id = await archived(database, ODD[:2])
    await unpack(database.pool, thread_id)
    async with database.pool.connection() as conn:
        await conn.execute("DELETE FROM archived_messages WHERE message_id = 'nul'")
    store = ArchiveStore(database.pool)
    removed = await store.removed(thread_id, compaction_id)
    assert [(message_id, back is None) for message_id, _, back in removed] == [("nul", True), ("half", False)]
    assert list(await store.at(thread_id, [Place("nul", compaction_id), Place("live", None)])) == []


async def test_archiving_a_message_again_changes_nothing_while_its_compaction_stands(
    database: Database,
) -> None:
    thread_id, first = await archived(database, ODD[:1])
    store = CompactionStore(database.pool)
    await store.committed(thread_id, first, None, "checkpoint")
    again = CompactionRecord(str(uuid.uuid4()), thread_id, None, "manual", "committing")
    await store.begin(again, ODD[:1], ["nul"])
    await unpack(database.pool, thread_id)
    async with database.pool.connection() as conn:
        cursor = await conn.execute("SELECT compaction_id::text AS id, position FROM archived_messages")
        rows: list[dict[str, Any]] = await cursor.fetchall()
    assert rows == [{"id": first, "position": 0}]


def test_an_original_is_read_without_its_json() -> None:
    original = encode(ODD[0]).original
    assert original is not None
    assert decode(original) == ODD[0]


async def test_removals_are_remembered_and_forgotten_without_a_difference(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id, first = await archived(database, ODD[:3])
    second, unknown = str(uuid.uuid4()), str(uuid.uuid4())
    record = CompactionRecord(second, thread_id, None, "manual", "committing")
    await CompactionStore(database.pool).begin(record, ODD[3:5], [message.id for message in ODD[3:]])
    expected = [
        Removal(first, ["nul", "half", "blocks"], ["nul", "half", "blocks"]),
        Removal(second, ["calls", "result"], [str(message.id) for message in ODD[3:]]),
    ]
    store = ArchiveStore(database.pool)
    for _ in range(2):
        assert await store.removals(thread_id, [first, unknown, second]) == expected
        assert await store.removals(thread_id, [second, first]) == expected[::-1]
        assert await store.removals(str(uuid.uuid4()), [first]) == []
        monkeypatch.setattr("app.persistence.archive._MOST_KNOWN", 8)
