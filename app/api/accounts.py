"""For administrators: keys, owners, and the end of an owner. Keys are made on the command line only."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from app.api.deps import Admin, Injected
from app.api.responses import Json
from app.errors import InvalidInput
from app.services.accounts.service import check_owner

router = APIRouter(tags=["accounts"])


@router.get("/keys")
async def list_keys(injected: Injected, admin: Admin, owner: str | None = None) -> Json:
    """All keys, or those of an owner, the newest first: whose they are and until when, never the keys themselves."""
    return Json({"data": [asdict(record) for record in await injected.keys.listed(owner)]})


@router.delete("/keys/{key_id}")
async def revoke_key(key_id: str, injected: Injected, admin: Admin) -> Json:
    """From now on the key is refused, after a few seconds by every process."""
    return Json(asdict(await injected.keys.revoke(key_id)))


@router.get("/owners")
async def list_owners(injected: Injected, admin: Admin) -> Json:
    """Who has a key or a thread. The empty name owns what was there before accounts."""
    return Json({"data": await injected.keys.owners()})


@router.delete("/owners/{owner:path}")
async def erase_owner(owner: str, injected: Injected, admin: Admin) -> Json:
    """Erase everything of an owner: threads, facts, items, assistants, keys. ``busy`` threads are still there, and what
    is kept beside threads too: ask again. Goes on when the client leaves."""
    if not check_owner(owner, "path.owner"):
        raise InvalidInput(
            "path.owner: must not be empty; what was there before accounts is erased by the command"
        )
    erased = await injected.background.finish(injected.upkeep.erasure.erase_owner(owner))
    return Json({"owner": owner, "threads": list(erased.threads), "busy": list(erased.busy)})
