"""What DeerFlow's chat asks for besides LangGraph's API: replays of the newest turn, branches of a thread."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json
from app.api.schemas import Body, Id

router = APIRouter(prefix="/threads/{thread_id}", tags=["replays"])

MessageId = Annotated[Id, Field(min_length=1)]
_MOST_MESSAGES = 1_000
# The chat says by this that files were taken along, as they are now: they are not part of checkpoints.
_FILES_COPIED = "current_thread_best_effort"


class RegenerateBody(Body):
    """``message_id``: an answer of the newest turn."""

    message_id: MessageId


class EditBody(Body):
    """``human_message_id``: the newest question. ``replacement_text``: its new words."""

    human_message_id: MessageId
    replacement_text: Annotated[str, Field(min_length=1)]


class BranchBody(Body):
    """``message_id``: an answer of the turn that the branch goes on from. ``message_ids``: all answers of that turn,
    accepted without effect, since one tells the turn. ``title`` of the new thread; without it that of then."""

    message_id: MessageId
    message_ids: Annotated[list[MessageId] | None, Field(max_length=_MOST_MESSAGES)] = None
    title: Annotated[str | None, Field(max_length=256)] = None


@router.post("/runs/regenerate/prepare")
async def prepare_regenerate(
    thread_id: ThreadId, owner: Owner, injected: Injected, body: RegenerateBody
) -> Json:
    """``input``, ``checkpoint`` and ``metadata`` of a run that answers the newest question anew. Changes nothing."""
    return Json(await injected.replays.regenerate(owner, thread_id, body.message_id))


@router.post("/runs/edit-regenerate/prepare")
async def prepare_edit(thread_id: ThreadId, owner: Owner, injected: Injected, body: EditBody) -> Json:
    """The same with the question in other words. Changes nothing."""
    prepared = await injected.replays.edit(owner, thread_id, body.human_message_id, body.replacement_text)
    return Json(prepared)


@router.post("/branches")
async def branch_thread(thread_id: ThreadId, owner: Owner, injected: Injected, body: BranchBody) -> Json:
    """A new thread that goes on from the end of an earlier turn. Goes on when the client leaves."""
    branching = injected.branches.branch(owner, thread_id, body.message_id, body.title)
    branch = await injected.background.finish(branching)
    return Json(
        {
            "thread_id": branch.thread_id,
            "parent_thread_id": thread_id,
            "parent_checkpoint_id": branch.checkpoint_id,
            "branched_from_message_id": body.message_id,
            "workspace_clone_mode": _FILES_COPIED,
            "history_seed_mode": "seeded",
        }
    )
