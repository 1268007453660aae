"""Runs without a thread: one is made for each and removed when it is over. And cancelling many runs at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from starlette.responses import Response, StreamingResponse

from app.api.deps import Injected, Owner, Services
from app.api.responses import Json, no_content
from app.api.run_answers import SSE, final_values, path_of, streaming, waiting
from app.api.run_schemas import BulkCancel, StatelessBody
from app.api.sse import frames
from app.errors import InvalidInput, ThreadkeepError
from app.persistence.runs import Run
from app.services.ids import check_thread_id, check_uuid, new_id
from app.services.runs.service import Prepared, run_to_json

router = APIRouter(prefix="/runs", tags=["runs"])

MAX_BATCH = 100


@router.post("")
async def create_run(body: StatelessBody, owner: Owner, injected: Injected) -> Json:
    """Start a run in the background. Its thread can be read until shortly after its end."""
    run = await _started(body, owner, injected)
    return Json(run_to_json(run), headers={"Content-Location": path_of(run)})


@router.post("/stream", responses=SSE)
async def stream_run(body: StatelessBody, owner: Owner, injected: Injected) -> StreamingResponse:
    """Start a run and stream its events."""
    run = await _started(body, owner, injected)
    events = _cleaned_up(frames(injected.streams.pages(run.run_id, new=True)), owner, injected, run)
    return streaming(events, injected, run, body.on_disconnect == "cancel")


@router.post("/wait")
async def wait_for_run(body: StatelessBody, owner: Owner, injected: Injected) -> StreamingResponse:
    """Start a run and answer with the values that it ended with."""
    run = await _started(body, owner, injected)
    values = _cleaned_up(final_values(injected, run), owner, injected, run)
    return waiting(values, injected, run, body.on_disconnect == "cancel")


@router.post("/batch")
async def create_batch(
    bodies: Annotated[list[StatelessBody], Body(min_length=1, max_length=MAX_BATCH)],
    owner: Owner,
    injected: Injected,
) -> Json:
    """Start several runs in the background; all of them are checked before the first one starts."""
    prepared = []
    for index, body in enumerate(bodies):
        try:
            prepared.append(await _prepared(body, owner, injected))
        except ThreadkeepError as error:
            raise type(error)(f"body[{index}]: {error.detail}", code=error.code) from None
    runs = [await injected.runs.admit(thread_id, owner, run) for thread_id, run in prepared]
    return Json([run_to_json(run) for run in runs])


@router.post("/cancel", status_code=204)
async def cancel_runs(
    body: BulkCancel,
    owner: Owner,
    injected: Injected,
    action: Literal["interrupt", "rollback"] = "interrupt",
) -> Response:
    """Stop runs by id, or all that are pending, running, or either. By id: 404 when there is no such run, 409 when all
    of them have ended."""
    if body.run_ids is None and body.status is None:
        raise InvalidInput("body: must give run_ids or status")
    if body.run_ids is not None and body.status is not None:
        raise InvalidInput("body.status: cannot be given together with run_ids")
    ids = body.run_ids and [
        check_uuid(run_id, where=f"body.run_ids[{index}]") for index, run_id in enumerate(body.run_ids)
    ]
    thread_id = _checked(body.thread_id, injected)
    if thread_id is not None:
        await injected.threads.get(owner, thread_id)
    await injected.runs.cancel_chosen(owner, thread_id, ids, body.status, action)
    return no_content()


async def _started(body: StatelessBody, owner: str, injected: Services) -> Run:
    thread_id, prepared = await _prepared(body, owner, injected)
    return await injected.runs.admit(thread_id, owner, prepared)


async def _prepared(body: StatelessBody, owner: str, injected: Services) -> tuple[str, Prepared]:
    named = _checked(body.thread_id, injected)
    if named is not None:
        return named, await injected.runs.prepare(named, owner, body.request(named))
    thread_id = new_id()
    return thread_id, await injected.runs.prepare(thread_id, owner, body.stateless(thread_id))


async def _cleaned_up(
    content: AsyncIterator[bytes], owner: str, injected: Services, run: Run
) -> AsyncIterator[bytes]:
    """When the client has everything, the thread has served. A client that went away before may come back for it."""
    async for chunk in content:
        yield chunk
    if run.kwargs["temporary"]:
        injected.background.start(injected.stateless.remove(owner, run.thread_id))


def _checked(thread_id: Any, injected: Services) -> str | None:
    if thread_id is None:
        return None
    return check_thread_id(thread_id, strict=injected.strict_thread_ids, where="body.thread_id")
