"""The items that an owner keeps beside threads: written, read, found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import Item, SearchItem

from app.errors import InvalidInput
from app.persistence.items import OPERATORS, ItemStore
from app.serialization import dumps
from app.services.threads.sanitize import refuse_wide_integers, strip_flags

MAX_LABELS = 20
MAX_NAMESPACE_BYTES = 1024
MAX_KEY_BYTES = 1024
MAX_VALUE_BYTES = 1024 * 1024
RESERVED = "langgraph"


class StoreService:
    """Everybody sees their own items alone; the hosted graphs that they run see the same."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    async def put(
        self,
        owner: str,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        ttl: float | None = None,
    ) -> None:
        """Write an item. ``ttl`` is minutes, rounded up, since it was written or last read; None: for good.

        Raises InvalidInput.
        """
        where = check_namespace(namespace, "body.namespace")
        _check_key(key, "body.key")
        refuse_wide_integers(value, "body.value")
        cleaned = strip_flags(value)
        if len(dumps(cleaned)) > MAX_VALUE_BYTES:
            raise InvalidInput(f"body.value: must be {MAX_VALUE_BYTES} bytes of JSON at most")
        await self._store.of(owner).aput(where, key, cleaned, ttl=ttl)

    async def get(
        self, owner: str, namespace: Sequence[str], key: str, refresh_ttl: bool | None = None
    ) -> dict[str, Any] | None:
        """The item, None when there is none. Raises InvalidInput."""
        where = check_namespace(namespace, "query.namespace")
        item = await self._store.of(owner).aget(where, key, refresh_ttl=refresh_ttl)
        return _to_json(item) if item else None

    async def delete(self, owner: str, namespace: Sequence[str], key: str) -> None:
        """Nothing happens when there is no such item. Raises InvalidInput."""
        await self._store.of(owner).adelete(check_namespace(namespace, "body.namespace"), key)

    async def search(
        self,
        owner: str,
        prefix: Sequence[str],
        wanted: Mapping[str, Any] | None,
        limit: int,
        offset: int,
        refresh_ttl: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Items below ``prefix`` that fit all conditions, the last changed first. Raises InvalidInput."""
        below = _check_labels(prefix, "body.namespace_prefix")
        found = await self._store.of(owner).asearch(
            below, filter=_filter(wanted or {}), limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )
        return [_to_json(item) for item in found]

    async def namespaces(
        self,
        owner: str,
        prefix: Sequence[str],
        suffix: Sequence[str],
        max_depth: int | None,
        limit: int,
        offset: int,
    ) -> list[list[str]]:
        """Namespaces that hold items, in order; ``*`` in a condition stands for any label. Raises InvalidInput."""
        found = await self._store.of(owner).alist_namespaces(
            prefix=_check_labels(prefix, "body.prefix") or None,
            suffix=_check_labels(suffix, "body.suffix") or None,
            max_depth=max_depth,
            limit=limit,
            offset=offset,
        )
        return [list(namespace) for namespace in found]


def check_namespace(labels: Sequence[str], where: str) -> tuple[str, ...]:
    """Raises InvalidInput unless it is a namespace that an item can have."""
    namespace = _check_labels(labels, where)
    if not namespace:
        raise InvalidInput(f"{where}: must have at least one label")
    if namespace[0] == RESERVED:
        raise InvalidInput(f"{where}: the first label must not be {RESERVED!r}")
    return namespace


def _check_labels(labels: Sequence[str], where: str) -> tuple[str, ...]:
    if len(labels) > MAX_LABELS:
        raise InvalidInput(f"{where}: must have {MAX_LABELS} labels at most")
    for index, label in enumerate(labels):
        if not label or "." in label:
            raise InvalidInput(f"{where}[{index}]: a label must not be empty and must not contain a period")
    if len(".".join(labels).encode()) > MAX_NAMESPACE_BYTES:
        raise InvalidInput(f"{where}: must be {MAX_NAMESPACE_BYTES} bytes at most")
    return tuple(labels)


def _check_key(key: str, where: str) -> None:
    if not 0 < len(key.encode()) <= MAX_KEY_BYTES:
        raise InvalidInput(f"{where}: must be 1 to {MAX_KEY_BYTES} bytes")


def _filter(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as the store takes them: an object without operators is a value to compare with."""
    conditions: dict[str, Any] = {}
    for field, condition in wanted.items():
        names = list(condition) if isinstance(condition, dict) else []
        if not any(name.startswith("$") for name in names):
            conditions[field] = {"$eq": condition}
            continue
        for name in names:
            if name not in OPERATORS:
                known = ", ".join(OPERATORS)
                raise InvalidInput(f"body.filter.{field}: there is no operator {name!r}; known: {known}")
        conditions[field] = condition
    return conditions


def _to_json(item: Item) -> dict[str, Any]:
    shown = {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
    return {**shown, "score": item.score} if isinstance(item, SearchItem) else shown
