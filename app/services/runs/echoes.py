"""What clients send again: those that send the whole conversation each time know no compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from langchain_core.messages import BaseMessage

from app.persistence.archive import ArchiveStore
from app.services.threads.state import HEAD, Graph
from app.services.threads.timeline import TimelineService


class Echoes:
    """Messages of a client that a compaction removed from the thread. Taken in, they would stand in the conversation a
    second time, behind what was said since, and cost what the compaction saved."""

    def __init__(self, archive: ArchiveStore, timelines: TimelineService) -> None:
        self._archive = archive
        self._timelines = timelines

    async def archived(self, graph: Graph, thread_id: str, messages: Any) -> Mapping[str, Sequence[str]]:
        """The archived forms, by id, of those that are archived on the branch of the newest state.

        A single message is nobody's whole conversation: whoever sends an archived one alone means it.
        """
        ids = _ids(messages)
        if len(ids) < 2:
            return {}
        said = await self._archive.said(thread_id, ids)
        if not said:
            return {}
        head = await graph.aget_state(HEAD.config(thread_id))
        whole = await self._timelines.conversation(thread_id, head.values)
        here = {place.message_id for place in whole.places if place.compaction_id}
        return {message_id: forms for message_id, forms in said.items() if message_id in here}


def without_echoes(
    messages: Sequence[BaseMessage], archived: Mapping[str, Sequence[str]]
) -> list[BaseMessage]:
    """The messages that say something new: not those that say what is archived under their id. One that was changed
    stays."""
    return [message for message in messages if not _is_echo(message, archived.get(message.id or "", ()))]


def _is_echo(message: BaseMessage, forms: Sequence[str]) -> bool:
    said = (message.type, message.content)
    return any((form["type"], form["content"]) == said for form in map(orjson.loads, forms))


def _ids(messages: Any) -> list[str]:
    listed = messages if isinstance(messages, list) else [messages]
    given = [message.get("id") for message in listed if isinstance(message, dict)]
    return [message_id for message_id in given if isinstance(message_id, str)]
