"""Drafts of compactions: committed or thrown away. They are made by a dry run."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StrictStr
from starlette.responses import Response

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json, no_content
from app.services.ids import check_uuid

router = APIRouter(prefix="/threads/{thread_id}/compactions/{compaction_id}", tags=["compaction"])


class ApplyBody(BaseModel):
    """``summary_text`` takes the place of the draft's own."""

    model_config = ConfigDict(extra="forbid")

    summary_text: StrictStr | None = None


@router.post("/apply")
async def apply_draft(
    thread_id: ThreadId,
    compaction_id: str,
    owner: Owner,
    injected: Injected,
    body: ApplyBody | None = None,
) -> Json:
    """Commit the draft. Messages that came since are kept; if any that it covers changed it is ``draft_stale``."""
    checked = check_uuid(compaction_id, where="path.compaction_id")
    text = body.summary_text if body else None
    return Json(await injected.drafts.apply(owner, thread_id, checked, text))


@router.delete("", status_code=204)
async def discard_draft(
    thread_id: ThreadId, compaction_id: str, owner: Owner, injected: Injected
) -> Response:
    """Throw the draft away. A compaction that was made stays on record."""
    checked = check_uuid(compaction_id, where="path.compaction_id")
    await injected.drafts.discard(owner, thread_id, checked)
    return no_content()
