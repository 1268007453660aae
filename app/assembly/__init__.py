"""The parts of a process, plugged together: stores → agents → runs → what is behind HTTP. Nothing runs yet."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from app.agent.hosted import LoadedGraph
from app.assembly.accounts import Accounts
from app.assembly.agents import Agents, Clock, Memory
from app.assembly.hooks import Hooks
from app.assembly.runs import Runs
from app.assembly.stores import Stores
from app.assembly.web import Web
from app.config import Settings
from app.persistence.database import Database
from app.redaction import Redactor
from app.services.work_metrics import ModelMetrics

__all__ = ["Assembly", "Clock", "Memory"]


class Assembly:
    """Each part is built once, when something needs it. ``now`` says which day agents are told, ``hosted``
    are the graphs of `graphs:`."""

    def __init__(
        self,
        settings: Settings,
        environ: dict[str, str],
        database: Database,
        redactor: Redactor,
        now: Clock,
        hosted: Sequence[LoadedGraph] = (),
    ) -> None:
        registry = CollectorRegistry()
        self.settings = settings
        models = ModelMetrics(registry)
        self.stores = Stores(
            database, redactor, archive_originals=settings.secrets.archive_originals, noted=models.called
        )
        self.agents = Agents(settings, environ, self.stores, registry, now, hosted)
        self.accounts = Accounts(settings, environ, self.stores)
        self.hooks = Hooks(settings, environ, self.stores, registry)
        self.runs = Runs(
            settings, self.stores, self.agents, self.accounts.limits, self.hooks.policy, registry
        )
        self.web = Web(settings, self.stores, self.agents, self.runs, self.accounts, self.hooks, registry)
