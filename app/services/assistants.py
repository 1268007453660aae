"""Assistants: one for each hosted graph by default, and those that clients create for themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.agent.names import assistant_id as id_of
from app.agent.names import is_uuid
from app.errors import Conflict, InvalidInput, NotFound
from app.persistence.assistants import (
    ALWAYS,
    Assistant,
    AssistantFilter,
    AssistantStore,
    Draft,
    SortBy,
    SortOrder,
)
from app.ports import Graphs
from app.services.ids import new_id
from app.services.runs.request import RunRequest

_SYSTEM_METADATA = {"created_by": "system"}


@dataclass(frozen=True, slots=True)
class AssistantPatch:
    """What changes of an assistant; None stays. ``metadata`` is merged, everything else replaced."""

    graph_id: str | None = None
    name: str | None = None
    description: str | None = None
    config: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None


class AssistantService:
    """The default ones are visible to everybody and belong to the configuration; the others to who made them."""

    def __init__(self, store: AssistantStore, graphs: Graphs) -> None:
        self._store = store
        self._graphs = graphs

    async def get(self, owner: str, assistant_id: str) -> Assistant:
        """By id, by the name of a graph, or by an alias of it. Raises InvalidInput (name) or NotFound (uuid)."""
        if is_uuid(assistant_id) and assistant_id.lower() not in self._default_ids:
            return _found(assistant_id, await self._store.get(assistant_id, owner))
        return self._default(
            self._graphs.resolve(assistant_id.lower() if is_uuid(assistant_id) else assistant_id)
        )

    async def runnable(self, owner: str, assistant_id: str) -> Assistant:
        """As ``get``, for a run: also raises Conflict when the graph of a created assistant is not hosted any more."""
        assistant = await self.get(owner, assistant_id)
        if assistant.graph_id not in self._graphs.names:
            raise Conflict(
                f"Assistant {assistant_id} needs the graph {assistant.graph_id!r}, which is not hosted any more",
                code="graph_missing",
            )
        return assistant

    async def applied(self, owner: str, request: RunRequest) -> tuple[Assistant, RunRequest]:
        """The assistant that a run names, and the request with what the assistant brings under its own.

        Raises as ``runnable``.
        """
        assistant = await self.runnable(owner, request.assistant_id)
        if assistant.assistant_id in self._default_ids:
            return assistant, request
        return assistant, _merged(assistant, request)

    async def create(
        self,
        owner: str,
        assistant_id: str | None,
        draft: Draft,
        if_exists: Literal["raise", "do_nothing"] = "raise",
    ) -> Assistant:
        """A new assistant, or the existing one with ``do_nothing``. Raises InvalidInput (graph), Conflict (id)."""
        draft = replace(draft, graph_id=self._graph(draft.graph_id))
        chosen = assistant_id or new_id()
        if chosen not in self._default_ids and await self._store.create(chosen, owner, draft):
            return await self.get(owner, chosen)
        if if_exists == "do_nothing" and (
            chosen in self._default_ids or await self._store.get(chosen, owner) is not None
        ):
            return await self.get(owner, chosen)
        raise Conflict(f"Assistant {chosen} exists already", code="assistant_exists")

    async def patch(self, owner: str, assistant_id: str, patch: AssistantPatch) -> Assistant:
        """Another version, which counts from now on. Raises NotFound, InvalidInput (graph) and Conflict (a default
        one)."""
        now = await self._own(owner, assistant_id)
        changes = {name: value for name in _PATCHED if (value := getattr(patch, name)) is not None}
        if "graph_id" in changes:
            changes["graph_id"] = self._graph(changes["graph_id"])
        draft = Draft(**{name: changes.get(name, getattr(now, name)) for name in _PATCHED})
        draft = replace(draft, metadata={**now.metadata, **(patch.metadata or {})})
        if not await self._store.add_version(now.assistant_id, owner, draft):
            raise _missing(assistant_id)
        return await self.get(owner, now.assistant_id)

    async def delete(self, owner: str, assistant_id: str) -> str:
        """The id of the assistant that is gone, with all its versions. Raises NotFound, Conflict (a default one)."""
        now = await self._own(owner, assistant_id)
        if not await self._store.delete(now.assistant_id, owner):
            raise _missing(assistant_id)
        return now.assistant_id

    async def versions(
        self, owner: str, assistant_id: str, metadata: Mapping[str, Any], limit: int, offset: int
    ) -> list[Assistant]:
        """The newest first; a default one has a single version. Raises InvalidInput or NotFound."""
        now = await self.get(owner, assistant_id)
        if now.assistant_id in self._default_ids:
            fits = all(now.metadata.get(key) == value for key, value in metadata.items())
            return [now][offset : offset + limit] if fits else []
        return await self._store.versions(now.assistant_id, owner, metadata, limit, offset)

    async def choose(self, owner: str, assistant_id: str, version: int) -> Assistant:
        """Make a version the one that counts. Raises NotFound, Conflict (a default one has but one)."""
        now = await self._own(owner, assistant_id)
        if not await self._store.choose(now.assistant_id, owner, version):
            raise NotFound(f"Assistant {assistant_id} has no version {version}")
        return await self.get(owner, now.assistant_id)

    async def search(
        self, wanted: AssistantFilter, *, limit: int, offset: int, sort_by: SortBy, sort_order: SortOrder
    ) -> tuple[list[Assistant], int]:
        """One page of assistants, and how many there are on all pages."""
        always = [self._default(name) for name in self._graphs.names]
        page = await self._store.search(
            wanted, always, limit=limit, offset=offset, sort_by=sort_by, sort_order=sort_order
        )
        return page, await self._store.count(wanted, always)

    async def count(self, wanted: AssistantFilter) -> int:
        return await self._store.count(wanted, [self._default(name) for name in self._graphs.names])

    @property
    def _default_ids(self) -> frozenset[str]:
        return frozenset(map(id_of, self._graphs.names))

    def _default(self, name: str) -> Assistant:
        return Assistant(
            assistant_id=id_of(name),
            graph_id=name,
            name=name,
            description=self._graphs.spec(name).description or None,
            config={},
            context={},
            metadata=_SYSTEM_METADATA,
            version=1,
            created_at=ALWAYS,
            updated_at=ALWAYS,
        )

    async def _own(self, owner: str, assistant_id: str) -> Assistant:
        """One that can be changed."""
        assistant = await self.get(owner, assistant_id)
        if assistant.assistant_id in self._default_ids:
            raise Conflict(
                f"Assistant {assistant_id} comes with the graph {assistant.graph_id!r} and cannot be changed or "
                "deleted; create one of your own",
                code="default_assistant",
            )
        return assistant

    def _graph(self, graph_id: str) -> str:
        if graph_id not in self._graphs.names:
            known = ", ".join(self._graphs.names)
            raise InvalidInput(f"body.graph_id: there is no graph {graph_id!r}; known: {known}")
        return graph_id


def _merged(assistant: Assistant, request: RunRequest) -> RunRequest:
    given, base = request.config.get("configurable") or {}, assistant.config.get("configurable") or {}
    context = {**assistant.context, **(request.context or {})}
    if "model_name" in given and "model_name" not in (request.context or {}):
        # The run's choice, wherever it stands, before the assistant's.
        context.pop("model_name", None)
    return replace(
        request,
        config={**assistant.config, **request.config, "configurable": {**base, **given}},
        context=context or request.context,
        metadata={**assistant.metadata, **(assistant.config.get("metadata") or {}), **request.metadata},
    )


_PATCHED = ("graph_id", "name", "description", "config", "context", "metadata")


def _found(assistant_id: str, assistant: Assistant | None) -> Assistant:
    if assistant is None:
        raise _missing(assistant_id)
    return assistant


def _missing(assistant_id: str) -> NotFound:
    return NotFound(f"There is no assistant {assistant_id}")
