"""The bench of the gateway: both sides do the same work, failures are counted, figures hold together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from app.bench.gateway.floor import Floor
from app.bench.gateway.idle import IdleFigures
from app.bench.gateway.load import LoadFigures, burst
from app.bench.gateway.recovery import RecoveryFigures
from app.bench.gateway.report import document, goals_of, tables
from app.bench.gateway.suite import GatewayFigures, GatewayScope, measure_gateway
from app.bench.gateway.visitor import VisitError, Visitor
from app.config import Overrides, load_settings
from app.persistence.database import Database
from tests.support.gateway import Gateway

LOAD = LoadFigures(8, 100.0, 60.0, 0.6, (0.5, 0.6, 0.7), 10.0, 20.0, 10.0, 50, 0, (), 9.0)
IDLE = IdleFigures("/threads/{t}/stream", 200, 40_000.0, 0.001, 400)
RECOVERY = RecoveryFigures("PostgreSQL is restarted", 8, 1.5, 1.2, 0)


async def visitor_of(gateway: Gateway) -> Visitor:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    return Visitor(host, int(port))


async def test_a_client_and_the_floor_see_the_same_tokens(
    gateway: Gateway, database: Database, tmp_path: Path
) -> None:
    settings = load_settings(None, {}, Overrides(data_dir=tmp_path))
    floor = Floor(settings, database)
    async with await visitor_of(gateway) as visitor:
        above = await burst([visitor.visit], 2)
    below = await burst([floor.visit], 2)
    assert above.errors == below.errors == ()
    assert {visit.tokens for visit in above.visits} == {visit.tokens for visit in below.visits}
    assert all(0 < visit.first_token_s < visit.seconds for visit in (*above.visits, *below.visits))


async def test_what_the_service_refuses_is_an_error_and_not_a_visit(gateway: Gateway) -> None:
    async with await visitor_of(gateway) as visitor:
        with pytest.raises(VisitError, match="status 404"):
            await visitor.call("GET", "/threads/00000000-0000-4000-8000-000000000000/state")
        visitor.close()
        failed = await burst([visitor.visit], 2)
    assert failed.visits == ()
    assert len(failed.errors) == 2


@pytest.mark.timeout(90)
async def test_a_whole_measurement_starts_a_service_and_ends_it(tmp_path: Path, database_url: str) -> None:
    settings = load_settings(None, {"DATABASE_URL": database_url}, Overrides(data_dir=tmp_path / "data"))
    said: list[str] = []
    figures = await measure_gateway(settings, GatewayScope((2,), 2, 1, 2, 0.5), said.append)
    (load,) = figures.load
    assert load.errors == 0
    assert load.runs_per_s > 0
    assert load.ratio == pytest.approx(load.runs_per_s / load.floor_runs_per_s)
    assert [idle.streams for idle in figures.idle] == [2, 2]
    assert len(said) == 2
    assert not (tmp_path / "data").exists()
    assert "ratio" in tables(figures, document_machine())


def document_machine() -> dict[str, object]:
    return {"system": "Linux", "python": "3", "processors": 2, "load_average": 1.0}


def test_goals_are_judged_by_ratio_first_token_errors_and_idle_streams() -> None:
    one = replace(LOAD, clients=1, first_token_later_ms=12.0)
    many = replace(LOAD, clients=32)
    good = GatewayFigures((one, LOAD, many), (IDLE,), (RECOVERY,), 1.0)
    assert len(goals_of(good)) == 7
    assert all(goal.met for goal in goals_of(good))
    bad = GatewayFigures(
        (
            replace(one, first_token_later_ms=20.0),
            replace(LOAD, ratio=0.3),
            replace(many, errors=1, problems=("status 503",)),
        ),
        (replace(IDLE, bytes_each=2e6, cpu_share=0.5),),
        (replace(RECOVERY, lost=1),),
        1.0,
    )
    assert not any(goal.met for goal in goals_of(bad))
    assert document(bad, {})["goals"][0]["met"] is False
    assert "status 503" in tables(bad, document_machine())


async def test_a_burst_runs_its_clients_side_by_side() -> None:
    meeting = asyncio.Barrier(3)

    async def visit() -> None:
        await meeting.wait()
        raise VisitError("met")

    done = await asyncio.wait_for(burst([visit] * 3, 1), 5)  # type: ignore[list-item]
    assert done.errors == ("met",) * 3
