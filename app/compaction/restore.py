"""Taking a compaction back and making it again, as values (rules F1, F2 the other way round)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from langchain_core.messages import BaseMessage

from app.compaction.timeline import Removal, timeline


def restored(
    live: Sequence[BaseMessage], removal: Removal, removed: Mapping[str, BaseMessage]
) -> list[BaseMessage]:
    """The messages with those back that a compaction removed, each where it stood. What was changed, deleted or said
    since stays as it is now."""
    now = {message.id: message for message in live}
    places = timeline([message.id for message in live], [removal])
    return [now[p.message_id] if p.compaction_id is None else removed[p.message_id or ""] for p in places]


def changed_since(
    live: Sequence[BaseMessage], removed: Mapping[str, str], digest_of: Callable[[BaseMessage], str]
) -> list[str]:
    """Ids of messages that a compaction removed (with their digests) and that are not in the state as they were."""
    now = {message.id: message for message in live if message.id in removed}
    return [
        message_id
        for message_id, digest in removed.items()
        if message_id not in now or digest_of(now[message_id]) != digest
    ]
