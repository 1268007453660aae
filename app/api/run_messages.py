"""Messages with the run that each is from, for front ends that group them by run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.deps import Injected, Owner, RunId, ThreadId
from app.api.responses import Json

router = APIRouter(prefix="/threads/{thread_id}", tags=["messages"])

Limit = Annotated[int, Query(ge=1, le=200)]
BeforeSeq = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("/messages/page")
async def get_messages_page(
    thread_id: ThreadId, owner: Owner, injected: Injected, limit: Limit = 50, before_seq: BeforeSeq = None
) -> Json:
    """The whole conversation, archived messages included, newest page first; the oldest message first within a page."""
    return Json(await injected.run_messages.page(owner, thread_id, limit, before_seq))


@router.get("/runs/{run_id}/messages")
async def get_run_messages(
    thread_id: ThreadId,
    run_id: RunId,
    owner: Owner,
    injected: Injected,
    limit: Limit = 50,
    before_seq: BeforeSeq = None,
) -> Json:
    """The newest messages of one run, the oldest first."""
    await injected.threads.get(owner, thread_id)
    await injected.runs.get(thread_id, run_id)
    return Json(await injected.run_messages.of_run(owner, thread_id, run_id, limit, before_seq))
