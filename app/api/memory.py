"""What is known of the person who asks, across threads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StrictStr
from starlette.responses import Response

from app.api.deps import Injected, Owner
from app.api.responses import Json, no_content
from app.services.memory.notes import MAX_TEXT_LENGTH

router = APIRouter(prefix="/memory", tags=["memory"])


class FactBody(BaseModel):
    """What a person writes down. The key is in the path."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[StrictStr, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]


@router.get("")
async def list_facts(owner: Owner, injected: Injected) -> Json:
    """All facts, the newest first."""
    return Json({"data": await injected.memory.facts(owner)})


@router.delete("", status_code=204)
async def forget_everything(owner: Owner, injected: Injected) -> Response:
    """Threads and their summaries stay as they are."""
    await injected.memory.clear(owner)
    return no_content()


@router.get("/{key}")
async def get_fact(key: str, owner: Owner, injected: Injected) -> Json:
    return Json(await injected.memory.get(owner, key))


@router.put("/{key}")
async def put_fact(key: str, body: FactBody, owner: Owner, injected: Injected) -> Json:
    """Write or correct a fact; what was written by hand is not changed by a model any more."""
    return Json(await injected.memory.put(owner, key, body.text))


@router.delete("/{key}", status_code=204)
async def forget_fact(key: str, owner: Owner, injected: Injected) -> Response:
    await injected.memory.delete(owner, key)
    return no_content()
