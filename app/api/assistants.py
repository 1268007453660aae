"""Assistants: one for each hosted graph, under a stable id, and those that clients create; what graphs look like."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BeforeValidator, Field
from starlette.responses import Response

from app.api.deps import Injected, Owner, Services
from app.api.responses import Json, chosen, no_content
from app.api.run_schemas import RunConfig
from app.api.schemas import AssistantCount, AssistantSearch, Body, JsonObject, Offset, PageSize, Parameters
from app.errors import BadRequest
from app.persistence.assistants import Assistant, AssistantFilter, Draft
from app.persistence.threads import ThreadFilter
from app.services.assistants import AssistantPatch
from app.services.graph_schemas import MAX_XRAY
from app.services.ids import check_uuid
from app.services.threads.sanitize import refuse_auth, refuse_reserved

router = APIRouter(prefix="/assistants", tags=["assistants"])

UNTITLED = "Untitled"
_OF_A_RUN = (
    "thread_id",
    "checkpoint_id",
    "checkpoint_ns",
    "checkpoint_map",
    "run_id",
    "assistant_id",
    "graph_id",
)
_THREADS_AT_ONCE = 100


def _of_no_run(config: RunConfig) -> RunConfig:
    for name in config.configurable or {}:
        if name in _OF_A_RUN:
            raise ValueError(f"configurable.{name} is for a run, not for an assistant")
    return config


def _whole_number(value: Any) -> Any:
    """A query says ``true``, ``false`` or a depth."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 9 else value


Title = Annotated[str, Field(min_length=1, max_length=256)]
Description = Annotated[str, Field(max_length=4096)]
AssistantConfig = Annotated[RunConfig, AfterValidator(_of_no_run)]
Xray = Annotated[Annotated[int, Field(ge=0, le=MAX_XRAY)] | bool, BeforeValidator(_whole_number)]


class AssistantCreate(Body):
    graph_id: str
    assistant_id: str | None = None
    name: Title | None = None
    description: Description | None = None
    config: AssistantConfig | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantChange(Body):
    graph_id: str | None = None
    name: Title | None = None
    description: Description | None = None
    config: AssistantConfig | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None


class VersionSearch(Body):
    metadata: JsonObject | None = None
    limit: PageSize = 10
    offset: Offset = 0


class VersionChoice(Body):
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]


class DeleteQuery(Parameters):
    delete_threads: bool = False


class GraphQuery(Parameters):
    xray: Xray = False


class SubgraphQuery(Parameters):
    recurse: bool = False


@router.post("")
async def create_assistant(body: AssistantCreate, owner: Owner, injected: Injected) -> Json:
    """An assistant of one's own: a graph, and the config, context and metadata that its runs begin with."""
    _check(body)
    chosen_id = check_uuid(body.assistant_id, where="body.assistant_id") if body.assistant_id else None
    draft = Draft(
        graph_id=body.graph_id,
        name=body.name or UNTITLED,
        description=body.description,
        config=_config(body.config) or {},
        context=body.context or {},
        metadata=body.metadata or {},
    )
    return _one(await injected.assistants.create(owner, chosen_id, draft, body.if_exists or "raise"))


@router.post("/search")
async def search_assistants(owner: Owner, injected: Injected, body: AssistantSearch | None = None) -> Json:
    """The newest first, then those of the configuration. ``name`` is a part of the name, in any case."""
    body = body or AssistantSearch()
    page, total = await injected.assistants.search(
        _filter(owner, body),
        limit=body.limit,
        offset=body.offset,
        sort_by=body.sort_by or "created_at",
        sort_order=body.sort_order or "desc",
    )
    headers = {"X-Pagination-Total": str(total)}
    if body.offset + len(page) < total:
        headers["X-Pagination-Next"] = str(body.offset + len(page))
    return Json(
        [chosen(asdict(assistant), body.select, "body.select") for assistant in page], headers=headers
    )


@router.post("/count")
async def count_assistants(owner: Owner, injected: Injected, body: AssistantCount | None = None) -> Json:
    return Json(await injected.assistants.count(_filter(owner, body or AssistantCount())))


@router.get("/{assistant_id}")
async def get_assistant(assistant_id: str, owner: Owner, injected: Injected) -> Json:
    """By id, by the name of its graph, or by an alias of it."""
    return _one(await injected.assistants.get(owner, assistant_id))


@router.patch("/{assistant_id}")
async def patch_assistant(assistant_id: str, body: AssistantChange, owner: Owner, injected: Injected) -> Json:
    """Another version: ``metadata`` is merged, everything else that is given replaced. It counts from now on."""
    _check(body)
    patch = AssistantPatch(
        graph_id=body.graph_id,
        name=body.name,
        description=body.description,
        config=_config(body.config),
        context=body.context,
        metadata=body.metadata,
    )
    return _one(await injected.assistants.patch(owner, assistant_id, patch))


@router.delete("/{assistant_id}", status_code=204)
async def delete_assistant(
    assistant_id: str, owner: Owner, injected: Injected, query: Annotated[DeleteQuery, Query()]
) -> Response:
    """With all its versions; ``delete_threads`` also deletes the threads whose last run was the assistant's."""
    gone = await injected.assistants.delete(owner, assistant_id)
    if query.delete_threads:
        await injected.background.finish(_delete_threads(injected, owner, gone))
    return no_content()


@router.post("/{assistant_id}/versions")
async def list_versions(
    assistant_id: str, owner: Owner, injected: Injected, body: VersionSearch | None = None
) -> Json:
    """The newest first."""
    body = body or VersionSearch()
    versions = await injected.assistants.versions(
        owner, assistant_id, body.metadata or {}, body.limit, body.offset
    )
    return Json([asdict(version) for version in versions])


@router.post("/{assistant_id}/latest")
async def set_latest_version(
    assistant_id: str, body: VersionChoice, owner: Owner, injected: Injected
) -> Json:
    """Make this version the one that runs use."""
    return _one(await injected.assistants.choose(owner, assistant_id, body.version))


@router.get("/{assistant_id}/schemas")
async def get_schemas(assistant_id: str, owner: Owner, injected: Injected) -> Json:
    """JSON schemas of the graph's input, output, state, config and context; null for one that has none."""
    return Json(injected.schemas.schemas(await _graph(injected, owner, assistant_id)))


@router.get("/{assistant_id}/graph")
async def get_graph(
    assistant_id: str, owner: Owner, injected: Injected, query: Annotated[GraphQuery, Query()]
) -> Json:
    """Nodes and edges, for drawing."""
    return Json(await injected.schemas.picture(await _graph(injected, owner, assistant_id), query.xray))


@router.get("/{assistant_id}/subgraphs")
@router.get("/{assistant_id}/subgraphs/{namespace}")
async def get_subgraphs(
    assistant_id: str,
    owner: Owner,
    injected: Injected,
    query: Annotated[SubgraphQuery, Query()],
    namespace: str | None = None,
) -> Json:
    """Schemas of the graphs inside, by namespace."""
    name = await _graph(injected, owner, assistant_id)
    return Json(await injected.schemas.subgraphs(name, namespace, query.recurse))


async def _graph(injected: Services, owner: str, assistant_id: str) -> str:
    return (await injected.assistants.runnable(owner, assistant_id)).graph_id


async def _delete_threads(injected: Services, owner: str, assistant_id: str) -> None:
    wanted = ThreadFilter(owner=owner, metadata={"assistant_id": assistant_id})
    while True:
        page, _ = await injected.threads.search(
            wanted, limit=_THREADS_AT_ONCE, offset=0, sort_by="created_at", sort_order="asc"
        )
        if not page:
            return
        for thread in page:
            await injected.threads.delete(owner, thread.thread_id)


def _one(assistant: Assistant) -> Json:
    return Json(asdict(assistant))


def _filter(owner: str, body: AssistantCount) -> AssistantFilter:
    return AssistantFilter(owner=owner, graph_id=body.graph_id, name=body.name, metadata=body.metadata or {})


def _config(given: RunConfig | None) -> JsonObject | None:
    return None if given is None else given.model_dump(exclude_none=True)


def _check(body: AssistantCreate | AssistantChange) -> None:
    """What a run may not say for itself, its assistant may not say for it either (rule H3)."""
    configurable = (body.config.configurable if body.config else None) or {}
    if configurable and body.context:
        raise BadRequest("config.configurable and context cannot both be given; use context")
    refuse_reserved(configurable, "body.config.configurable")
    refuse_reserved(body.context or {}, "body.context")
    refuse_auth(body.metadata or {}, "body.metadata")
