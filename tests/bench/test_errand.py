"""The errand counts what really happened, alike for both middlewares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.bench.errand import Errand, measure_errand
from app.config import Settings, settings_from
from app.persistence.database import Database

ERRAND = Errand(steps=40, result_chars=28_000)


def settings(**summarization: Any) -> Settings:
    return settings_from({"summarization": summarization})


@pytest.fixture
def shipped() -> Settings:
    return settings(
        trigger={"type": "tokens", "value": 32000},
        keep={"type": "messages", "value": 10},
        trim_tokens_to_summarize=15564,
    )


async def test_large_results_are_compacted_a_few_times_and_all_of_them_is_read(
    database: Database, shipped: Settings
) -> None:
    ours, theirs = await measure_errand(shipped, database, ERRAND)
    assert (ours.middleware, theirs.middleware) == ("threadkeep", "langchain")
    assert 0 < ours.compactions <= 12
    assert ours.compactions < theirs.compactions / 2
    assert ours.summary_calls >= ours.compactions
    assert theirs.summary_calls == theirs.compactions
    assert ours.read_share == 1.0
    assert ours.request_chars < theirs.request_chars


async def test_without_a_trigger_nothing_is_compacted(database: Database) -> None:
    ours, _ = await measure_errand(settings(), database, replace(ERRAND, steps=8))
    assert (ours.trigger, ours.compactions, ours.summary_calls, ours.summary_chars) == ("none", 0, 0, 0)


async def test_what_no_summary_call_was_shown_is_not_counted_as_read(database: Database) -> None:
    tight = settings(
        trigger={"type": "tokens", "value": 20000}, trim_tokens_to_summarize=1000, max_summary_calls=1
    )
    ours, _ = await measure_errand(tight, database, replace(ERRAND, steps=12))
    assert ours.compactions > 0
    assert 0 < ours.read_share < 0.5
