"""Copies, pruning, retention and erasure."""

from __future__ import annotations

from app.assembly.agents import Agents
from app.assembly.stores import Stores
from app.config import Settings
from app.persistence.copies import CopyStore
from app.persistence.pruning import PruneStore
from app.persistence.retention import RetentionStore
from app.services.threads.copies import ThreadCopies
from app.services.threads.reservations import Reservations
from app.services.threads.service import ThreadService
from app.services.upkeep.erasure import Erasure
from app.services.upkeep.pruning import Pruning
from app.services.upkeep.retention import Retention
from app.services.upkeep.service import Upkeep
from app.services.upkeep.storage import Storage


def upkeep(
    settings: Settings, stores: Stores, agents: Agents, threads: ThreadService, reservations: Reservations
) -> Upkeep:
    checkpoints, old = PruneStore(stores.pool), RetentionStore(stores.pool)
    pruning = Pruning(threads, stores.threads, stores.records, checkpoints, agents.graphs, reservations)
    erasure = Erasure(threads, old)
    return Upkeep(
        copies=ThreadCopies(stores.threads, CopyStore(stores.pool), agents.workspaces, reservations),
        pruning=pruning,
        storage=Storage(stores.pool, stores.threads, agents.workspaces),
        erasure=erasure,
        retention=Retention(settings.retention, old, erasure, pruning, checkpoints),
    )
