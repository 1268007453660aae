"""Compaction of a thread: do it, look at what was done, look at the context."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

import orjson
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json
from app.config import ContextSizeSettings
from app.services.compaction.manual import CompactRequest
from app.services.compaction.service import record_to_json
from app.services.ids import check_uuid
from app.services.markdown import to_html

router = APIRouter(prefix="/threads/{thread_id}", tags=["compaction"])

INSTRUCTIONS_MAX = 4000
Name = Annotated[str, Field(min_length=1, max_length=200)]


class CompactBody(BaseModel):
    """All fields may be left out. ``force`` true ignores the trigger; ``keep`` is for this call only. ``dry_run``:
    ``plan`` says what would be done, ``summary`` makes a draft."""

    model_config = ConfigDict(extra="forbid")

    force: StrictBool = True
    keep: ContextSizeSettings | None = None
    model_name: Name | None = None
    agent_name: Name | None = None
    instructions: Annotated[str, Field(max_length=INSTRUCTIONS_MAX)] | None = None
    dry_run: Literal["plan", "summary"] | None = None

    def request(self) -> CompactRequest:
        return CompactRequest(
            force=self.force,
            keep=self.keep.size if self.keep else None,
            model_name=self.model_name,
            agent_name=self.agent_name,
            instructions=(self.instructions or "").strip() or None,
        )


@router.post("/compact")
async def compact(
    thread_id: ThreadId, owner: Owner, injected: Injected, body: CompactBody | None = None
) -> Json:
    """Compact the thread now. ``compacted`` false with a ``reason`` when there is nothing to do."""
    given = body or CompactBody()
    match given.dry_run:
        case None:
            work = injected.compactions.compact
        case "plan":
            # It asks no model.
            return Json(await injected.previews.plan(owner, thread_id, given.request()))
        case "summary":
            work = injected.drafts.make
        case _:
            assert_never(given.dry_run)
    await injected.limits.compaction(owner, thread_id)
    counted = injected.limits.counted(owner, work(owner, thread_id, given.request()))
    return Json(await injected.background.finish(counted))


@router.get("/context")
async def get_context(thread_id: ThreadId, owner: Owner, injected: Injected) -> Json:
    """What the model would be sent now, by part, beside the window and the trigger."""
    return Json(await injected.contexts.report(owner, thread_id))


@router.get("/compactions")
async def list_compactions(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    before: str | None = None,
    checkpoint_ns: Annotated[str, Query(max_length=400)] = "",
) -> Json:
    """Newest first; ``before`` is the last id of the page before. ``checkpoint_ns`` asks for those of a subagent, whose
    stream events have the same namespace."""
    cursor = check_uuid(before, where="query.before") if before else None
    records = await injected.compactions.records(owner, thread_id, limit + 1, cursor, checkpoint_ns)
    data = [record_to_json(record) for record in records[:limit]]
    return Json({"data": data, "has_more": len(records) > limit})


@router.get("/compactions/{compaction_id}")
async def get_compaction(
    thread_id: ThreadId,
    compaction_id: str,
    owner: Owner,
    injected: Injected,
    render: Literal["html"] | None = None,
) -> Json:
    """One record with its summary and the messages that the summary replaced. ``render=html`` adds ``summary_html``."""
    checked = check_uuid(compaction_id, where="path.compaction_id")
    record, removed = await injected.compactions.record(owner, thread_id, checked)
    shown = {
        **record_to_json(record, whole=True),
        "removed_messages": [orjson.loads(text) for text in removed],
    }
    if record.status == "draft":
        shown.update(await injected.drafts.details(thread_id, checked))
    if render:
        shown["summary_html"] = to_html(record.summary_text) if record.summary_text else None
    return Json(shown)
