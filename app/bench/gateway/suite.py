"""All measurements of the gateway, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.bench.gateway.floor import Floor
from app.bench.gateway.idle import IdleFigures, measure_idle
from app.bench.gateway.load import LoadFigures, measure_load
from app.bench.gateway.recovery import RecoveryFigures, measure_recovery
from app.bench.gateway.service import serving
from app.bench.gateway.visitor import VisitError
from app.bench.suite import own_database
from app.config import Settings
from app.errors import DatabaseError


@dataclass(frozen=True, slots=True)
class GatewayScope:
    """How much is measured: so many ``visits`` in each of the ``rounds`` with each number of ``clients``, so many idle
    ``streams`` of each kind for so many seconds, and runs in the middle of which something is lost (0: none)."""

    clients: tuple[int, ...]
    visits: int
    rounds: int
    streams: int
    idle_s: float
    losses: int = 0


THOROUGH = GatewayScope((1, 8, 32), 64, 5, 200, 15.0)
QUICK = GatewayScope((1, 8), 16, 2, 20, 2.0)
LOSSES = 8


@dataclass(frozen=True, slots=True)
class GatewayFigures:
    """Everything that one run measured. ``seconds`` is how long it took."""

    load: tuple[LoadFigures, ...]
    idle: tuple[IdleFigures, ...]
    recovery: tuple[RecoveryFigures, ...]
    seconds: float


async def measure_gateway(
    settings: Settings, scope: GatewayScope, say: Callable[[str], None]
) -> GatewayFigures:
    """Measure all of it; ``say`` gets a line before each part. Raises DatabaseError, also when the service does not do
    what it is asked to where that is not a figure itself."""
    start = time.monotonic()
    load: list[LoadFigures] = []
    idle: list[IdleFigures] = []
    recovery: list[RecoveryFigures] = []
    try:
        async with own_database(settings) as (own_settings, database):
            floor = Floor(own_settings, database)
            async with serving(own_settings, database.url) as service:
                for clients in scope.clients:
                    say(f"{clients} clients, {scope.rounds} rounds of {scope.visits} visits on each side")
                    load.append(await measure_load(service, floor, clients, scope.visits, scope.rounds))
                say(f"{scope.streams} idle streams")
                idle += await measure_idle(service, scope.streams, scope.idle_s)
            if scope.losses:
                say(f"{scope.losses} runs whose database and whose worker is lost")
                recovery += await measure_recovery(own_settings, database.url, scope.losses)
    except VisitError as error:
        raise DatabaseError(f"The service did not do what it was asked to: {error}") from error
    return GatewayFigures(tuple(load), tuple(idle), tuple(recovery), round(time.monotonic() - start, 1))
