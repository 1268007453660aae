"""The use cases around how threads grow, in one value for the routes and commands that need them."""

from __future__ import annotations

from dataclasses import dataclass

from app.services.threads.copies import ThreadCopies
from app.services.upkeep.erasure import Erasure
from app.services.upkeep.pruning import Pruning
from app.services.upkeep.retention import Retention
from app.services.upkeep.storage import Storage


@dataclass(frozen=True)
class Upkeep:
    copies: ThreadCopies
    pruning: Pruning
    storage: Storage
    erasure: Erasure
    retention: Retention
