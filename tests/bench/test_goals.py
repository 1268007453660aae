"""Goals are judged by the figures, and only where they are set."""

from __future__ import annotations

from app.bench.goals import goals_of
from app.bench.hook import Case, HookFigures
from app.bench.planning import PlanningFigures
from app.bench.suite import Figures


def hook(messages: int, case: Case, ours: float, theirs: float) -> HookFigures:
    return HookFigures(messages, case, ours, theirs, ours / theirs, 1.0, 5)


def figures(*hooks: HookFigures, seconds: float = 0.5, messages: int = 10_000) -> Figures:
    planned = PlanningFigures(messages, 1_000_000, seconds * 400, seconds * 600, 500_000, 2_000_000, 8)
    return Figures(hooks, (planned,), (), (), 1.0)


def met(given: Figures) -> dict[str, bool]:
    return {goal.name: goal.met for goal in goals_of(given)}


def test_a_hook_that_costs_little_and_grows_by_new_messages_meets_its_goals() -> None:
    small = hook(100, "growing", 0.1, 0.2)
    judged = met(figures(small, hook(10_000, "first", 100, 25), hook(10_000, "growing", 1.0, 25)))
    assert len(judged) == 4
    assert all(judged.values())


def test_a_hook_that_looks_at_every_message_again_misses_them() -> None:
    small = hook(100, "growing", 1.0, 0.2)
    judged = met(figures(small, hook(10_000, "first", 100, 25), hook(10_000, "growing", 90, 25)))
    assert list(judged.values()) == [False, False, True, True]


def test_slow_planning_misses_its_goal() -> None:
    assert list(met(figures(seconds=1.5)).values()) == [False, True]


def test_nothing_is_judged_on_small_threads() -> None:
    assert met(figures(hook(1_000, "growing", 90, 25), messages=1_000)) == {}
