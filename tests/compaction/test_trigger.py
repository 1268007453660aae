"""When a compaction starts (rules A4, B1, B2, C1)."""

from __future__ import annotations

import pytest

from app.compaction.trigger import fired, message_count, next_trigger_tokens, resolve
from app.compaction.types import DEFAULT_KEEP, Context, ContextSize, TokenBreakdown
from tests.compaction.build import human, policy, resolved


def tokens(total: int, reserved: int = 0) -> TokenBreakdown:
    return TokenBreakdown(messages=total, total=total, reserved=reserved)


def test_no_trigger_never_fires() -> None:
    assert fired(resolved(), tokens(10**9), 10**6) is None


@pytest.mark.parametrize(("total", "fires"), [(999, False), (1000, True), (1001, True)])
def test_reaching_the_threshold_fires(total: int, fires: bool) -> None:
    assert (fired(resolved(("tokens", 1000)), tokens(total), 1) is not None) is fires


@pytest.mark.parametrize(("count", "fires"), [(49, False), (50, True)])
def test_messages_are_counted(count: int, fires: bool) -> None:
    assert (fired(resolved(("messages", 50)), tokens(10**9), count) is not None) is fires


def test_any_clause_is_enough_and_the_first_that_fires_is_named() -> None:
    policy_ = resolved(("tokens", 1000), ("messages", 50), ("fraction", 0.5), window=8000)
    for breakdown, count, kind in [
        (tokens(1000), 1, "tokens"),
        (tokens(10), 50, "messages"),
        (tokens(999, reserved=3001), 1, "fraction"),
    ]:
        clause = fired(policy_, breakdown, count)
        assert clause is not None
        assert clause.size.kind == kind
    assert fired(policy_, tokens(999), 49) is None


def test_the_replys_reservation_counts_against_a_window_only() -> None:
    breakdown = tokens(600, reserved=400)
    assert fired(resolved(("tokens", 1000)), breakdown, 1) is None
    assert fired(resolved(("fraction", 0.5), window=2000), breakdown, 1) is not None


def test_the_live_summary_counts_as_one_message() -> None:
    messages = [human(), human()]
    assert message_count(Context(messages=messages)) == 2
    assert message_count(Context(messages=messages, summary="was")) == 3


def test_a_fraction_is_a_share_of_the_window() -> None:
    policy_ = resolved(("fraction", 0.8), keep=("fraction", 0.25), window=10_000)
    assert policy_.clauses[0].tokens == 8000
    assert (policy_.keep_tokens, policy_.target_tokens, policy_.warnings) == (2500, 4000, ())


def test_without_a_window_fractions_are_dropped_with_a_warning_and_the_rest_lives_on() -> None:
    policy_ = resolved(("fraction", 0.8), ("tokens", 900), ("messages", 50))
    assert [clause.size.kind for clause in policy_.clauses] == ["tokens", "messages"]
    assert len(policy_.warnings) == 1
    assert "0.8" in policy_.warnings[0]


def test_when_every_clause_is_dropped_nothing_is_automatic() -> None:
    policy_ = resolved(("fraction", 0.8))
    assert policy_.clauses == ()
    assert policy_.target_tokens is None
    assert fired(policy_, tokens(10**9), 10**6) is None


@pytest.mark.parametrize(
    ("trigger", "keep"),
    [((), DEFAULT_KEEP.value), ((50,), DEFAULT_KEEP.value), ((20,), 10), ((50, 7), 3), ((1,), 1)],
)
def test_a_fraction_to_keep_of_an_unknown_window_becomes_the_default_that_the_trigger_leaves_room_for(
    trigger: tuple[int, ...], keep: float
) -> None:
    policy_ = resolved(*[("messages", n) for n in trigger], keep=("fraction", 0.3))
    assert policy_.keep == ContextSize("messages", keep)
    assert policy_.keep_tokens is None
    assert "keep fraction 0.3" in policy_.warnings[0]


def test_the_target_is_a_share_of_the_smallest_threshold() -> None:
    policy_ = resolved(("tokens", 3000), ("fraction", 0.5), window=4000, target_fraction=0.25)
    assert policy_.target_tokens == 500
    assert next_trigger_tokens(policy_) == 2000


def test_messages_alone_set_no_target() -> None:
    policy_ = resolved(("messages", 50))
    assert policy_.target_tokens is None
    assert next_trigger_tokens(policy_) is None


def test_the_target_of_a_fraction_leaves_room_for_the_reply() -> None:
    policy_ = resolve(policy(("fraction", 0.8)), 10_000, reserved_output=2000)
    assert policy_.target_tokens == 3000
    assert fired(policy_, tokens(policy_.target_tokens or 0, reserved=2000), 1) is None


def test_a_reservation_that_always_reaches_a_fraction_is_warned_about() -> None:
    policy_ = resolve(policy(("fraction", 0.5)), 8000, reserved_output=4000)
    assert policy_.target_tokens == 0
    assert "max_tokens" in policy_.warnings[0]


@pytest.mark.parametrize(
    ("clauses", "window", "late"),
    [
        ([("tokens", 7000)], 8000, True),
        ([("tokens", 6999)], 8000, False),
        ([("tokens", 9000), ("tokens", 500)], 8000, False),
        ([("tokens", 9000), ("fraction", 0.8)], 8000, False),
        ([("messages", 50)], 8000, False),
        ([("tokens", 9000)], None, False),
    ],
)
def test_a_trigger_that_the_window_is_full_before_is_warned_about(
    clauses: list[tuple[str, float]], window: int | None, late: bool
) -> None:
    warnings = resolve(policy(*clauses), window, reserved_output=1000).warnings
    assert any("comes too late" in warning for warning in warnings) == late
