"""The figures of recall for people (tables) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from app.bench.goals import Goal
from app.bench.recall import RecallFigures
from app.bench.report import Row, goal_rows, section

_GOALS_FROM = 50_000


def goals_of(figures: RecallFigures) -> list[Goal]:
    """The goals that can be judged: searches are judged in 50,000 messages."""
    searches = [each for each in figures.searches if each.messages >= _GOALS_FROM]
    goals = [Goal(f"p95 of a search, {each.kind} (ms)", each.p95_ms, 50.0) for each in searches]
    shares = [
        Goal(f"archiving {each.messages} messages / a compaction without", each.share, 0.1)
        for each in figures.archives
    ]
    return [*goals, *shares]


def document(figures: RecallFigures, on: Mapping[str, Any]) -> dict[str, Any]:
    """Everything as JSON values; ``on`` is the machine."""
    return {
        "machine": dict(on),
        "searches": [asdict(each) for each in figures.searches],
        "archives": [{**asdict(each), "share": each.share} for each in figures.archives],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals_of(figures)],
    }


def tables(figures: RecallFigures, on: Mapping[str, Any]) -> str:
    """The same for people; ``on`` is the machine."""
    return "\n\n".join(
        [
            f"{on['system']}, Python {on['python']}, {on['processors']} processors,"
            f" load {on['load_average']} at the start",
            section("Searches of one thread among others (ms)", _searches(figures)),
            section("A compaction with a model that answers at once (ms)", _archives(figures)),
            section("Goals", goal_rows(goals_of(figures))),
        ]
    )


def _searches(figures: RecallFigures) -> Iterator[Row]:
    yield "searches for", "archived", "searches", "p50", "p95", "p95, people"
    for each in figures.searches:
        times = (f"{ms:.1f}" for ms in (each.p50_ms, each.p95_ms, each.people_p95_ms))
        yield each.kind, f"{each.messages:,}", str(each.searches), *times


def _archives(figures: RecallFigures) -> Iterator[Row]:
    yield (
        "messages",
        "compaction",
        "without archive",
        "archive adds",
        "/ without",
        "indexing later, per message",
    )
    for each in figures.archives:
        times = (
            f"{each.compaction_ms:.0f}",
            f"{each.without_ms:.0f}",
            f"{each.adds_ms:.1f}",
            f"{each.share:.3f}",
        )
        yield f"{each.messages:,}", *times, f"{each.later_ms_per_message:.2f}"
