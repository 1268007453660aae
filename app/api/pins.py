"""Pinned messages of a thread."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json, no_content
from app.services.threads.messages import MAX_ID_LENGTH

router = APIRouter(prefix="/threads/{thread_id}", tags=["pins"])

# Clients choose the ids of messages, so that anything may stand in one.
MessageId = Annotated[str, Path(min_length=1, max_length=MAX_ID_LENGTH)]


@router.get("/pins")
async def list_pins(thread_id: ThreadId, owner: Owner, injected: Injected) -> Json:
    """The pinned messages, oldest pin first, and what they take of the budget."""
    return Json(await injected.pins.report(owner, thread_id))


@router.put("/messages/{message_id:path}/pin")
async def pin_message(thread_id: ThreadId, message_id: MessageId, owner: Owner, injected: Injected) -> Json:
    """Let no compaction remove the message. Pinning it again changes nothing."""
    return Json(await injected.pins.pin(owner, thread_id, message_id))


@router.delete("/messages/{message_id:path}/pin", status_code=204)
async def unpin_message(
    thread_id: ThreadId, message_id: MessageId, owner: Owner, injected: Injected
) -> Response:
    """Let compactions remove the message again."""
    await injected.pins.unpin(owner, thread_id, message_id)
    return no_content()
