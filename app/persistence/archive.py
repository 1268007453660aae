"""The archive: every message that a compaction removed, as exactly as the thread's state held it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncConnection

from app.serialization import dumps

_SERIALIZER = JsonPlusSerializer()
_ENCODING = "msgpack"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message as the archive keeps it. ``text`` is its JSON, ``digest`` the SHA-256 of that, ``original`` what a
    checkpoint would hold, None for a message that no checkpoint can hold."""

    text: str = field(repr=False)
    digest: str
    original: bytes | None = field(repr=False)


def encode(message: BaseMessage) -> Encoded:
    """The forms in which a message is archived. All are those of the message as it comes out of a checkpoint, which
    may differ from the one at hand: a checkpoint has no lone surrogates, for example."""
    try:
        _, original = _SERIALIZER.dumps_typed(message)
    except TypeError:
        # An integer beyond 64 bits, say. The run's checkpoint will fail as well; the archive is not what fails it.
        return _encoded(dumps(message), None)
    try:
        text = orjson.dumps(message.model_dump())
    except TypeError:
        text = dumps(decode(original))
    return _encoded(text, original)


def decode(original: bytes) -> BaseMessage:
    """The message that was encoded, as it comes out of a checkpoint."""
    message: BaseMessage = _SERIALIZER.loads_typed((_ENCODING, original))
    return message


def digest_of(message: BaseMessage) -> str:
    """Identifies a message's content: equal for what a checkpoint would not tell apart."""
    return encode(message).digest


def _encoded(text: bytes, original: bytes | None) -> Encoded:
    return Encoded(text.decode(), hashlib.sha256(text).hexdigest(), original)


async def archive(
    conn: AsyncConnection[Any],
    thread_id: str,
    checkpoint_ns: str,
    compaction_id: str,
    run_id: str | None,
    removed: Sequence[BaseMessage],
) -> list[str]:
    """Write ``removed`` and return their digests. Archiving a message again (same id, same content) changes nothing."""
    encoded = [encode(message) for message in removed]
    digests = [item.digest for item in encoded]
    await conn.execute(
        _ARCHIVE,
        {
            "thread": thread_id,
            "ns": checkpoint_ns,
            "compaction": compaction_id,
            "run": run_id,
            "ids": [message.id for message in removed],
            "digests": digests,
            "texts": [item.text for item in encoded],
            "originals": [item.original for item in encoded],
        },
    )
    return digests


# What an earlier compaction archived and did not commit, or that was taken back, belongs to the one that does.
_ARCHIVE = """
INSERT INTO archived_messages AS a
    (thread_id, checkpoint_ns, message_id, digest, compaction_id, position, run_id, message, original)
SELECT %(thread)s, %(ns)s, m.id, m.digest, %(compaction)s, last.position + m.number, %(run)s, m.message, m.original
FROM unnest(%(ids)s::text[], %(digests)s::text[], %(texts)s::text[], %(originals)s::bytea[])
    WITH ORDINALITY AS m(id, digest, message, original, number),
    (SELECT coalesce(max(position), -1) AS position FROM archived_messages
     WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s) AS last
ON CONFLICT (thread_id, checkpoint_ns, message_id, digest) DO UPDATE
    SET compaction_id = EXCLUDED.compaction_id, run_id = EXCLUDED.run_id,
        original = coalesce(a.original, EXCLUDED.original)
    WHERE NOT EXISTS (
        SELECT 1 FROM compactions c
        WHERE c.thread_id = a.thread_id AND c.compaction_id = a.compaction_id AND c.status = 'committed')
"""
