"""What a thread's model calls used, and what of the service is switched on."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json

router = APIRouter(tags=["usage"])


@router.get("/threads/{thread_id}/token-usage")
async def get_token_usage(thread_id: ThreadId, owner: Owner, injected: Injected) -> Json:
    """Tokens that the providers reported, by model and by caller, of the whole life of the thread; and how full its
    context is now (estimated)."""
    return Json(await injected.usage.report(owner, thread_id))


@router.get("/features")
async def get_features(injected: Injected) -> Json:
    """Which optional parts of the service are on."""
    return Json(injected.features)
