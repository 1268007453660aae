"""The conversation with the run that each message is from: the form in which DeerFlow's front end reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from app.persistence.threads import Thread
from app.persistence.token_usage import Answered, TokenUsageStore
from app.services.threads.service import ThreadService
from app.services.threads.timeline import PageRequest, TimelineService

_PAGE = 200
# Messages behind a page that are looked at for the answer to its last question.
_AHEAD = 5


class RunMessages:
    """Rows ``{seq, run_id, content, metadata, created_at}``, ``content`` being the message."""

    def __init__(self, threads: ThreadService, timelines: TimelineService, usage: TokenUsageStore) -> None:
        self._threads = threads
        self._timelines = timelines
        self._usage = usage

    async def page(self, owner: str, thread_id: str, limit: int, before_seq: int | None) -> dict[str, Any]:
        """Newest page first, oldest message first within it. Raises NotFound."""
        thread = await self._threads.get(owner, thread_id)
        ahead = 0 if before_seq is None else _AHEAD
        wanted = PageRequest(limit + ahead, before_seq and before_seq + ahead)
        page = await self._timelines.page(owner, thread_id, wanted)
        rows = await self._rows(thread, page["data"])
        older = [row for row in rows if before_seq is None or row["seq"] < before_seq]
        shown = older[-limit:]
        has_more = page["has_more"] or len(older) > limit
        return {
            "data": shown,
            "has_more": has_more,
            "next_before_seq": shown[0]["seq"] if has_more and shown else None,
        }

    async def _rows(self, thread: Thread, entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        ids = [entry["message"]["id"] for entry in entries if entry["message"]["type"] == "ai"]
        answered = await self._usage.answered(thread.thread_id, [item for item in ids if item])
        return [
            {
                "seq": entry["seq"],
                "run_id": origin.run_id if origin else entry["run_id"],
                "content": entry["message"],
                "metadata": {"caller": "lead_agent"},
                "created_at": origin.created_at if origin else thread.created_at,
            }
            for entry, origin in zip(entries, _origins(entries, answered), strict=True)
        ]

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
    """Answers are known. Up to the next question, everything belongs to the run of the answer before it, or else of the
    one behind it; a question to that of the answer behind it."""
    known = [answered.get(entry["message"]["id"] or "") for entry in entries]
    behind: list[Answered | None] = [None] * len(entries)
    following: Answered | None = None
    for index in range(len(entries) - 1, -1, -1):
        behind[index] = following = known[index] or following
        if _is_question(entries[index]):
            following = None
    before: Answered | None = None
    for index, entry in enumerate(entries):
        if _is_question(entry):
            before = None
        known[index] = before = known[index] or before or behind[index]
    return known


def _is_question(entry: Mapping[str, Any]) -> bool:
    return bool(entry["message"]["type"] == "human")
