"""Search of a thread: archived and live messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json
from app.services.recall.service import MAX_QUERY_CHARS

router = APIRouter(prefix="/threads/{thread_id}/messages", tags=["messages"])


@router.get("/search")
async def search_messages(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    q: Annotated[str, Query(min_length=1, max_length=MAX_QUERY_CHARS)],
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
) -> Json:
    """Messages that hold the words of ``q``, best first; names, paths and code are found by what they are made of,
    Chinese, Japanese and Korean without spaces. ``complete`` is false while some are not indexed yet."""
    return Json(await injected.searches.search(owner, thread_id, q, limit))
