"""Search of a thread for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from langgraph.types import StateSnapshot

from app.errors import NotFound
from app.persistence.threads import ThreadStore
from app.ports import Graphs
from app.services.recall.service import Found, RecallService, checked_query
from app.services.threads.timeline import TimelineService

# Conversations whose order is remembered, the last ones that were searched: some megabytes each when they are long.
_MOST_KNOWN = 4


class SearchService:
    """The use case behind ``GET /threads/{t}/messages/search``."""

    def __init__(
        self, threads: ThreadStore, graphs: Graphs, recall: RecallService, timelines: TimelineService
    ) -> None:
        self._threads = threads
        self._graphs = graphs
        self._recall = recall
        self._timelines = timelines
        self._known: dict[tuple[str, str | None], Mapping[str | None, int]] = {}

    async def search(self, owner: str, thread_id: str, text: str, limit: int) -> dict[str, Any]:
        """The messages of the conversation on the branch of the head that match, best first, archived and live.

        ``complete`` is false while archived messages wait to be indexed: the same search may find more in a moment.
        Raises NotFound and InvalidInput, which names ``q``.
        """
        query = checked_query(text, "query.q")
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state({"configurable": {"thread_id": thread_id}})
        found, complete = await self._recall.find(thread_id, head.values, query, limit)
        seqs = await self._seqs(thread_id, head) if found else {}
        data = [_shown(each, seqs) for each in found if each.said.message_id in seqs]
        return {"data": data, "complete": complete}

    async def _seqs(self, thread_id: str, head: StateSnapshot) -> Mapping[str | None, int]:
        """The ``seq`` of every message. Somebody who searches does it again and again, and a state never changes: of a
        thread with 50,000 messages the order takes a tenth of a second."""
        state = (thread_id, head.config["configurable"].get("checkpoint_id"))
        known = self._known.pop(state, None)
        if known is None:
            known = (await self._timelines.conversation(thread_id, head.values)).seqs()
        self._known[state] = known
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return known


def _shown(found: Found, seqs: Mapping[str | None, int]) -> dict[str, Any]:
    message = found.message
    return {
        "seq": seqs[found.said.message_id],
        "message_id": found.said.message_id,
        "snippet": found.snippet,
        "score": found.score,
        "archived": found.archived,
        "message": orjson.loads(message) if isinstance(message, str) else message,
    }
