"""Taking a compaction back, and making it again."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StrictBool

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json
from app.services.ids import check_uuid

router = APIRouter(prefix="/threads/{thread_id}/compactions/{compaction_id}", tags=["compaction"])


class UndoBody(BaseModel):
    """May be left out. ``force`` takes it back even if the request does not fit the model's window then."""

    model_config = ConfigDict(extra="forbid")

    force: StrictBool = False


class RedoBody(BaseModel):
    """Nothing to say; may be left out."""

    model_config = ConfigDict(extra="forbid")


@router.post("/undo")
async def undo(
    thread_id: ThreadId, compaction_id: str, owner: Owner, injected: Injected, body: UndoBody | None = None
) -> Json:
    """Bring back exactly the messages and the summary of before; what was said since stays. Only the newest compaction
    in force can be taken back. ``will_compact_again``: the next model call would compact the thread at once."""
    checked = check_uuid(compaction_id, where="path.compaction_id")
    force = (body or UndoBody()).force
    return Json(await injected.undo.undo(owner, thread_id, checked, force=force))


@router.post("/redo")
async def redo(
    thread_id: ThreadId, compaction_id: str, owner: Owner, injected: Injected, body: RedoBody | None = None
) -> Json:
    """Make a compaction again that was taken back, with the same summary, if its messages are as they were."""
    return Json(
        await injected.undo.redo(owner, thread_id, check_uuid(compaction_id, where="path.compaction_id"))
    )
