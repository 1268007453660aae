"""How threads grow: copies, pruning, what they take."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from app.api.deps import Injected, Owner, Services, ThreadId
from app.api.responses import Json
from app.api.schemas import Body
from app.api.thread_view import thread_to_json
from app.services.ids import check_thread_id

router = APIRouter(prefix="/threads", tags=["threads"])

_MOST_THREADS = 1_000


class PruneBody(Body):
    """``delete`` removes threads whole, ``keep_latest`` what they do not need to go on or to undo."""

    thread_ids: Annotated[list[str], Field(max_length=_MOST_THREADS)]
    strategy: Literal["delete", "keep_latest"] = "delete"


@router.post("/prune")
async def prune_threads(owner: Owner, injected: Injected, body: PruneBody) -> Json:
    """Threads that are busy or not there are left alone and named in ``skipped``. Goes on when the client leaves."""
    pruning = injected.upkeep.pruning.prune(owner, _checked(body.thread_ids, injected), body.strategy)
    pruned = await injected.background.finish(pruning)
    skipped = [{"thread_id": thread_id, "reason": reason} for thread_id, reason in pruned.skipped]
    return Json(
        {
            "pruned_count": pruned.pruned_count,
            "removed_checkpoints": pruned.removed_checkpoints,
            "skipped": skipped,
        }
    )


@router.post("/{thread_id}/copy")
async def copy_thread(thread_id: ThreadId, owner: Owner, injected: Injected) -> Json:
    """A new thread that knows what this one knows. Goes on when the client leaves."""
    copy_id = await injected.background.finish(injected.upkeep.copies.copy(owner, thread_id))
    thread = await injected.threads.get(owner, copy_id)
    return Json(thread_to_json(thread, await injected.states.values(thread)))


@router.get("/{thread_id}/storage")
async def thread_storage(thread_id: ThreadId, owner: Owner, injected: Injected) -> Json:
    """Bytes by kind, as the database stores them, without its indexes."""
    return Json(await injected.upkeep.storage.of(owner, thread_id))


def _checked(thread_ids: list[str], injected: Services) -> list[str]:
    return [
        check_thread_id(thread_id, strict=injected.strict_thread_ids, where=f"body.thread_ids[{index}]")
        for index, thread_id in enumerate(thread_ids)
    ]
