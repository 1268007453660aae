"""``python -m app bench recall``: its figures hold together, and goals are judged only where they are set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.bench.recall import ArchiveFigures, RecallFigures, RecallScope, SearchFigures, measure_recall
from app.bench.recall_report import document, goals_of, tables
from app.bench.report import machine
from app.config import Overrides, load_settings
from app.persistence.database import Database

SMALL = RecallScope(messages=400, others=1, searches=3, sizes=(60,), rounds=2)


async def test_searches_and_compactions_are_measured(database: Database, tmp_path: Path) -> None:
    settings = load_settings(None, {}, Overrides(data_dir=tmp_path))
    said: list[str] = []
    figures = await measure_recall(settings, database, SMALL, said.append)
    assert len(said) == 3
    assert {each.kind for each in figures.searches} == {
        "name",
        "words",
        "common words",
        "Chinese",
        "misspelt",
    }
    for each in figures.searches:
        assert 0 < each.p50_ms <= each.p95_ms
        assert each.people_p95_ms > 0
    (archived,) = figures.archives
    assert min(archived.compaction_ms, archived.without_ms) > 0
    # So few rounds of so few messages say nothing about the archive, and on a busy machine not even that it takes time.
    assert abs(archived.adds_ms) < archived.compaction_ms
    assert archived.later_ms_per_message > 0
    shown = document(figures, machine())
    assert shown["archives"][0]["share"] == archived.share
    assert "misspelt" in tables(figures, machine())


def test_a_search_is_judged_in_fifty_thousand_messages_and_an_archive_by_its_share() -> None:
    search = SearchFigures("name", 50_000, 10, 10.0, 49.0, 80.0)
    archive = ArchiveFigures(400, 110.0, 100.0, 9.0, 1.0)
    assert archive.share == pytest.approx(0.09)
    met = goals_of(RecallFigures((search,), (archive,)))
    assert [goal.met for goal in met] == [True, True]
    missed = goals_of(RecallFigures((replace(search, p95_ms=51.0),), (replace(archive, adds_ms=11.0),)))
    assert [goal.met for goal in missed] == [False, False]
    assert len(goals_of(RecallFigures((replace(search, messages=2_000),), ()))) == 0
