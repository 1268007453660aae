"""Store items: what clients and hosted graphs keep beside threads, each owner's apart, in LangGraph's store."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import psycopg
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from app.persistence.memory import namespace_of

ROOT = "items"
OPERATORS: Mapping[str, str] = {
    "$eq": "=",
    "$ne": "IS DISTINCT FROM",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
}

Namespace = tuple[str, ...]

_SWEEP_SECONDS = 300

log = logging.getLogger(__name__)


class ItemStore(AsyncPostgresStore):
    """LangGraph's store, with two things put right: numbers are compared as numbers, not as text, and what has expired
    is gone at once, not when it is swept away."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        super().__init__(pool, ttl={"omit_expired": True, "refresh_on_read": True})

    def _get_filter_condition(self, key: str, op: str, value: Any) -> tuple[str, list[Any]]:
        """JSON values in the order of jsonb, a value of another type is neither greater nor less."""
        compared = [key, orjson.dumps(value).decode()]
        if op in ("$eq", "$ne"):
            return f"value->%s {OPERATORS[op]} %s::jsonb", compared
        same_type = "jsonb_typeof(value->%s) = jsonb_typeof(%s::jsonb)"
        return f"({same_type} AND value->%s {OPERATORS[op]} %s::jsonb)", [*compared, *compared]

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Meanwhile, rows of items that have expired are deleted now and then."""
        sweeping = asyncio.create_task(self._sweep(), name="store sweep")
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.wait([sweeping])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                await self.sweep_ttl()
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("expired items of the store are not deleted now: %s", error)

    def of(self, owner: str) -> OwnedStore:
        """The part of the store that belongs to ``owner``."""
        return OwnedStore(self, owner)


class OwnedStore(BaseStore):
    """One owner's items under the namespaces that the owner gave them. Nothing of anybody else can be named here, facts
    included: each operation is moved below a namespace of the owner's."""

    supports_ttl = True

    def __init__(self, inner: AsyncPostgresStore, owner: str) -> None:
        self._inner = inner
        self._base: Namespace = (ROOT, namespace_of(owner)[-1])
        self.ttl_config = inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._shown(result) for result in self._inner.batch([self._moved(op) for op in ops])]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results = await self._inner.abatch([self._moved(op) for op in ops])
        return [self._shown(result) for result in results]

    def _moved(self, op: Op) -> Op:
        match op:
            case GetOp():
                return op._replace(namespace=self._base + op.namespace)
            case PutOp(ttl=ttl):
                # The table keeps whole minutes, and none would be over at the first read.
                return op._replace(
                    namespace=self._base + op.namespace, ttl=None if ttl is None else math.ceil(ttl)
                )
            case SearchOp():
                return op._replace(namespace_prefix=self._base + op.namespace_prefix)
            case ListNamespacesOp():
                return self._listing(op)
        raise TypeError(f"no operation of a store: {type(op).__name__}")

    def _listing(self, op: ListNamespacesOp) -> ListNamespacesOp:
        conditions = list(op.match_conditions or ())
        prefix = next((tuple(c.path) for c in conditions if c.match_type == "prefix"), ())
        suffixes = [c for c in conditions if c.match_type == "suffix"]
        # A suffix is as long as the namespace at most: it must not match with labels of ours.
        longest = max([1, *(len(condition.path) for condition in suffixes)])
        prefix += ("*",) * (longest - len(prefix))
        return op._replace(
            match_conditions=(MatchCondition("prefix", (*self._base, *prefix)), *suffixes),
            max_depth=None if op.max_depth is None else op.max_depth + len(self._base),
        )

    def _shown(self, result: Result) -> Result:
        match result:
            case SearchItem():
                return SearchItem(
                    self._own(result.namespace),
                    result.key,
                    result.value,
                    result.created_at,
                    result.updated_at,
                    result.score,
                )
            case Item():
                return Item(
                    namespace=self._own(result.namespace),
                    key=result.key,
                    value=result.value,
                    created_at=result.created_at,
                    updated_at=result.updated_at,
                )
            case [tuple(), *_]:
                return [self._own(namespace) for namespace in result]
            case list():
                return [self._shown(item) for item in result]  # type: ignore[arg-type, return-value]
        return result

    def _own(self, namespace: Any) -> Namespace:
        return tuple(namespace)[len(self._base) :]
