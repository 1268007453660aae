"""The conversation with the run that each message is from: the form in which DeerFlow's front end reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from app.persistence.token_usage import Answered, TokenUsageStore
from app.services.threads import ThreadService
from app.services.timeline import PageRequest, TimelineService

_PAGE = 200
_AI = "ai"


class RunMessages:
    """Rows ``{seq, run_id, content, metadata, created_at}``, ``content`` being the message."""

    def __init__(self, threads: ThreadService, timelines: TimelineService, usage: TokenUsageStore) -> None:
        self._threads = threads
        self._timelines = timelines
        self._usage = usage

    async def page(self, owner: str, thread_id: str, limit: int, before_seq: int | None) -> dict[str, Any]:
        """Newest page first, oldest message first within it. Raises NotFound."""
        thread = await self._threads.get(owner, thread_id)
        page = await self._timelines.page(owner, thread_id, PageRequest(limit, before_seq))
        entries: Sequence[Mapping[str, Any]] = page["data"]
        ids = [entry["message"]["id"] for entry in entries if entry["message"]["type"] == _AI]
        answered = await self._usage.answered(thread_id, [item for item in ids if item])
        origins = _origins(entries, answered)
        return {
            "data": [
                {
                    "seq": entry["seq"],
                    "run_id": (origin.run_id if origin else None) or entry["run_id"],
                    "content": entry["message"],
                    "metadata": {"caller": "lead_agent"},
                    "created_at": origin.created_at if origin else thread.created_at,
                }
                for entry, origin in zip(entries, origins, strict=True)
            ],
            "has_more": page["has_more"],
            "next_before_seq": page["next_before_seq"],
        }

    async def of_run(
        self, owner: str, thread_id: str, run_id: str, limit: int, before_seq: int | None
    ) -> dict[str, Any]:
        """The newest messages of one run."""
        rows: list[dict[str, Any]] = []
        async for row in self._backwards(owner, thread_id, before_seq):
            if row["run_id"] == run_id:
                rows.append(row)
                if len(rows) > limit:
                    break
            elif rows:
                # A run writes its messages in one stretch.
                break
        return {"data": rows[:limit][::-1], "has_more": len(rows) > limit}

    async def _backwards(
        self, owner: str, thread_id: str, before_seq: int | None
    ) -> AsyncIterator[dict[str, Any]]:
        while True:
            page = await self.page(owner, thread_id, _PAGE, before_seq)
            for row in reversed(page["data"]):
                yield row
            if not page["has_more"]:
                return
            before_seq = page["next_before_seq"]


def _origins(entries: Sequence[Mapping[str, Any]], answered: Mapping[str, Answered]) -> list[Answered | None]:
    """Answers are known; a question belongs to the answer behind it, a tool's result to the one before it."""
    known = [answered.get(entry["message"]["id"] or "") for entry in entries]
    following: Answered | None = None
    for index in range(len(entries) - 1, -1, -1):
        following = known[index] or following
        if entries[index]["message"]["type"] == "human":
            known[index] = known[index] or following
            following = None
    before: Answered | None = None
    for index, entry in enumerate(entries):
        if entry["message"]["type"] == "human":
            before = known[index]
        known[index] = before = known[index] or before
    return known
