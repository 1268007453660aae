"""Store items: key and value below a namespace, of the one who asks.

Accepted without effect: ``index`` and ``query`` (there are no embeddings; a search shows what its filter allows).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field
from starlette.responses import Response

from app.api.deps import Injected, Owner
from app.api.responses import Json, no_content
from app.api.schemas import Body, JsonObject, Offset, PageSize, Parameters

router = APIRouter(prefix="/store", tags=["store"])


def _paths(value: Any) -> Any:
    if value in (None, False) or (isinstance(value, list) and all(isinstance(path, str) for path in value)):
        return value
    raise ValueError("must be false, a list of paths or null")


Labels = list[str]
Index = Annotated[
    Any,
    AfterValidator(_paths),
    Field(
        description="Accepted without effect: there are no embeddings, and every field can be filtered by."
    ),
]
Minutes = Annotated[float, Field(gt=0, le=5_256_000, allow_inf_nan=False)]


class ItemPut(Body):
    namespace: Labels
    key: str
    value: JsonObject
    index: Index = None
    ttl: Minutes | None = None


class ItemQuery(Parameters):
    namespace: str = ""
    key: str
    refresh_ttl: bool | None = None


class ItemDelete(Body):
    namespace: Labels
    key: str


class ItemSearch(Body):
    namespace_prefix: Labels | None = None
    filter: JsonObject | None = None
    limit: PageSize = 10
    offset: Offset = 0
    query: Annotated[
        str | None,
        Field(
            description="Accepted without effect, as in LangGraph's store without an index: items are neither left out "
            "nor put into another order for it, and their `score` is null."
        ),
    ] = None
    refresh_ttl: bool | None = None


class NamespaceSearch(Body):
    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: Annotated[int, Field(ge=1, le=100)] | None = None
    limit: PageSize = 100
    offset: Offset = 0


@router.put("/items", status_code=204)
async def put_item(body: ItemPut, owner: Owner, injected: Injected) -> Response:
    """Write an item, in the place of one that is there. ``ttl`` is minutes since it was written or last read."""
    await injected.store.put(owner, body.namespace, body.key, body.value, body.ttl)
    return no_content()


@router.get("/items")
async def get_item(owner: Owner, injected: Injected, query: Annotated[ItemQuery, Query()]) -> Json:
    """The item, ``null`` when there is none. The labels of ``namespace`` are joined with periods."""
    labels: Any = query.namespace.split(".") if query.namespace else []
    return Json(await injected.store.get(owner, labels, query.key, query.refresh_ttl))


@router.delete("/items", status_code=204)
async def delete_item(body: ItemDelete, owner: Owner, injected: Injected) -> Response:
    await injected.store.delete(owner, body.namespace, body.key)
    return no_content()


@router.post("/items/search")
async def search_items(owner: Owner, injected: Injected, body: ItemSearch | None = None) -> Json:
    """Items below a namespace, the last changed first. A filter names fields of the value, each with a value or with
    operators: ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``. There are no embeddings: ``query`` changes
    nothing."""
    body = body or ItemSearch()
    items = await injected.store.search(
        owner, body.namespace_prefix or [], body.filter, body.limit, body.offset, body.refresh_ttl
    )
    return Json({"items": items})


@router.post("/namespaces")
async def list_namespaces(owner: Owner, injected: Injected, body: NamespaceSearch | None = None) -> Json:
    body = body or NamespaceSearch()
    namespaces = await injected.store.namespaces(
        owner, body.prefix or [], body.suffix or [], body.max_depth, body.limit, body.offset
    )
    return Json({"namespaces": namespaces})
