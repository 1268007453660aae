"""What routes are given: the services of this app, who asks, and checked path parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from prometheus_client import CollectorRegistry
from starlette.requests import HTTPConnection

from app.agent.skills import SkillCatalogue
from app.api.metering import HttpMetrics
from app.errors import Forbidden
from app.persistence.webhooks import WebhookStore
from app.ports import ChatModels, Graphs
from app.services.accounts.limits import Limits
from app.services.accounts.service import Authenticator, Caller, KeyAccounts
from app.services.accounts.usage import UsageService
from app.services.assistants import AssistantService
from app.services.background import Background
from app.services.compaction.context import ContextService
from app.services.compaction.drafts import DraftService
from app.services.compaction.pins import PinService
from app.services.compaction.preview import PreviewService
from app.services.compaction.service import CompactionService
from app.services.compaction.undo import UndoService
from app.services.gauges import Gauges
from app.services.graph_schemas import GraphSchemas
from app.services.ids import check_thread_id, check_uuid
from app.services.memory.service import MemoryService
from app.services.recall.search import SearchService
from app.services.runs.messages import RunMessages
from app.services.runs.results import RunResults
from app.services.runs.service import RunService
from app.services.runs.stateless import StatelessThreads
from app.services.runs.streams import RunStreams
from app.services.store import StoreService
from app.services.thread_events.service import ThreadEvents
from app.services.threads.branches import ThreadBranches
from app.services.threads.replays import Replays
from app.services.threads.service import ThreadService
from app.services.threads.state import StateService
from app.services.threads.streams import ThreadStreams
from app.services.threads.timeline import TimelineService
from app.services.upkeep.service import Upkeep
from app.telemetry import note_scope


@dataclass(frozen=True)
class Services:
    """Everything the routes use, put together in ``app/main.py`` and kept as ``app.state.services``.

    ``registry`` is what ``/metrics`` shows. ``check_ready`` returns a sentence that says what is missing, or
    None when requests can be served. ``strict_thread_ids`` is ``server.strict_thread_ids`` of the settings.
    """

    threads: ThreadService
    states: StateService
    runs: RunService
    streams: RunStreams
    thread_events: ThreadEvents
    results: RunResults
    compactions: CompactionService
    contexts: ContextService
    thread_streams: ThreadStreams
    stateless: StatelessThreads
    usage: UsageService
    upkeep: Upkeep
    replays: Replays
    branches: ThreadBranches
    webhooks: WebhookStore
    features: Mapping[str, Any]
    pins: PinService
    previews: PreviewService
    drafts: DraftService
    undo: UndoService
    timelines: TimelineService
    run_messages: RunMessages
    searches: SearchService
    memory: MemoryService
    store: StoreService
    assistants: AssistantService
    schemas: GraphSchemas
    background: Background
    graphs: Graphs
    models: ChatModels
    skills: SkillCatalogue
    registry: CollectorRegistry
    gauges: Gauges
    http_metrics: HttpMetrics
    accounts: Authenticator
    keys: KeyAccounts
    limits: Limits
    check_ready: Callable[[], Awaitable[str | None]]
    strict_thread_ids: bool = True


# None of these is a plain function: FastAPI would send each of them to a thread, for every request.


async def services(connection: HTTPConnection) -> Services:
    found: Services = connection.app.state.services
    return found


async def caller(connection: HTTPConnection) -> Caller:
    """Who asks, as the middleware found out."""
    found: Caller = connection.scope["caller"]
    return found


Asking = Annotated[Caller, Depends(caller)]


async def owner(asking: Asking) -> str:
    """Whose things the caller sees; of everybody else's it is told that they do not exist."""
    return asking.owner


async def admin(asking: Asking) -> Caller:
    """An administrator. Raises Forbidden for anybody else."""
    if not asking.admin:
        raise Forbidden("This is for administrators", code="admin_required")
    return asking


Injected = Annotated[Services, Depends(services)]
Owner = Annotated[str, Depends(owner)]
Admin = Annotated[Caller, Depends(admin)]


async def thread_id(thread_id: str, injected: Injected) -> str:
    """The thread of the path, checked. Raises InvalidInput."""
    checked = check_thread_id(thread_id, strict=injected.strict_thread_ids)
    note_scope(thread_id=checked)
    return checked


ThreadId = Annotated[str, Depends(thread_id)]


async def run_id(run_id: str) -> str:
    """The run id of the path, checked. Raises InvalidInput."""
    checked = check_uuid(run_id, where="run_id")
    note_scope(run_id=checked)
    return checked


RunId = Annotated[str, Depends(run_id)]
