"""What a compaction removes and what it keeps (rules C2-C6)."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from langchain_core.messages import BaseMessage

from app.compaction.partition import Partition, partition
from app.compaction.repair import valid_request
from app.compaction.tokens import TokenCounter
from app.compaction.trigger import ResolvedPolicy
from app.compaction.verify import verify
from tests.compaction.build import (
    ai,
    flat,
    hidden,
    human,
    ids,
    memory,
    reminder,
    resolved,
    result,
    system,
    tool_round,
)


def divide(
    messages: list[BaseMessage], policy: ResolvedPolicy, *pinned: BaseMessage, fixed_tokens: int = 0
) -> Partition | None:
    marks = frozenset(message.id or "" for message in pinned)
    return partition(messages, policy, flat(), fixed_tokens=fixed_tokens, pinned=marks)


def must(parts: Partition | None) -> Partition:
    assert parts is not None
    return parts


def talk(turns: int) -> list[BaseMessage]:
    return [message for _ in range(turns) for message in (human(), ai())]


# C2: keep


def test_the_newest_messages_are_kept_and_the_rest_is_removed() -> None:
    messages = talk(5)
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.removed == tuple(messages[:6])
    assert parts.kept == tuple(messages[6:])


def test_a_keep_in_tokens_keeps_the_longest_suffix_within_the_budget() -> None:
    messages = talk(5)
    parts = must(divide(messages, resolved(keep=("tokens", 39))))
    assert parts.kept == tuple(messages[-3:]) == (messages[7], *messages[8:])


def test_a_keep_in_tokens_smaller_than_the_last_message_keeps_it_with_its_call() -> None:
    messages = [human(), ai(), *tool_round("c1")]
    parts = must(divide(messages, resolved(keep=("tokens", 1))))
    assert parts.kept == (messages[0], *messages[2:])


def test_a_keep_in_messages_keeps_more_rather_than_parting_a_call_from_its_result() -> None:
    messages = [human(), *talk(3), *tool_round("c1"), human("newest")]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert parts.kept == tuple(messages[-3:])


def test_a_keep_in_fractions_is_measured_against_the_window() -> None:
    messages = talk(5)
    parts = must(divide(messages, resolved(keep=("fraction", 0.5), window=80)))
    assert parts.kept == tuple(messages[-4:])


def test_a_keep_that_covers_everything_leaves_nothing_to_remove() -> None:
    assert divide(talk(2), resolved(keep=("messages", 4))) is None
    assert divide(talk(2), resolved(keep=("tokens", 40))) is None


def test_keep_is_a_wish_and_shrinks_until_the_request_fits_the_target() -> None:
    messages = talk(10)
    parts = must(divide(messages, resolved(("tokens", 200), keep=("messages", 15)), fixed_tokens=30))
    assert len(parts.kept) == 7  # 200 * 0.5 = 100 = 30 + 7 * 10


def test_shrinking_goes_group_by_group_and_stops_as_soon_as_the_request_fits() -> None:
    rounds = [message for n in range(4) for message in tool_round(f"c{n}")]
    messages = [human(), *rounds]
    parts = must(divide(messages, resolved(("tokens", 100), keep=("messages", 8))))
    assert parts.kept == (messages[0], *rounds[-4:])


def test_shrinking_stops_at_the_last_complete_exchange() -> None:
    messages = [*talk(3), human(), ai("", "c1", "c2"), result("c1"), result("c2")]
    parts = must(divide(messages, resolved(("tokens", 2), keep=("messages", 6))))
    assert parts.kept == tuple(messages[-4:])


def test_the_answer_before_a_new_question_is_part_of_the_last_exchange() -> None:
    messages = [*talk(3), human("next")]
    parts = must(divide(messages, resolved(("tokens", 2), keep=("messages", 5))))
    assert parts.kept == tuple(messages[-2:])


def test_a_keep_smaller_than_the_last_exchange_shrinks_down_to_the_last_message() -> None:
    messages = [*talk(2), hidden(), hidden()]
    parts = must(divide(messages, resolved(("tokens", 2), keep=("messages", 2))))
    assert parts.kept == (messages[2], messages[-1])


def test_messages_of_people_alone_shrink_down_to_the_last_one() -> None:
    messages = [ai(), human(), human(), human()]
    parts = must(divide(messages, resolved(("tokens", 2), keep=("messages", 3))))
    assert parts.kept == tuple(messages[-1:])


def test_without_a_threshold_in_tokens_nothing_shrinks_the_keep() -> None:
    messages = talk(10)
    parts = must(divide(messages, resolved(("messages", 12), keep=("messages", 10)), fixed_tokens=10**6))
    assert len(parts.kept) == 10


def test_a_target_of_its_own_goes_below_the_last_exchange() -> None:
    messages = [*talk(3), human("next")]
    policy = resolved(("tokens", 1000), keep=("messages", 5))
    parts = must(partition(messages, policy, flat(), fixed_tokens=0, target_tokens=5))
    assert parts.kept == tuple(messages[-1:])


def test_budgets_are_true_tokens_where_a_provider_says_that_the_estimate_is_low() -> None:
    messages = talk(10)
    policy = resolved(("tokens", 200), keep=("messages", 20))
    parts = must(partition(messages, policy, flat(), fixed_tokens=0, scale=2.0))
    assert len(parts.kept) == 5


def test_forty_steps_with_large_results_do_not_compact_at_every_step() -> None:
    counter = TokenCounter()
    policy = resolved(("tokens", 32000), keep=("messages", 10))
    messages: list[BaseMessage] = [human("do it")]
    compactions = 0
    for step in range(40):
        messages.extend(tool_round(f"c{step}", "lorem ipsum " * 2333))
        if counter.messages(messages) >= 32000:
            parts = must(partition(messages, policy, counter, fixed_tokens=1500))
            messages, compactions = list(parts.kept), compactions + 1
            assert counter.messages(messages) <= 16000
    assert 5 <= compactions <= 20


# C3: cuts


def test_a_message_between_a_call_and_its_result_does_not_part_them() -> None:
    call, answer = ai("", "c1"), result("c1")
    messages = [*talk(2), call, human("wait"), answer, human("newest")]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert parts.kept == tuple(messages[-4:])


def test_parallel_calls_are_atomic() -> None:
    messages = [*talk(2), ai("", "c1", "c2", "c3"), result("c3"), result("c1"), result("c2"), ai()]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert parts.kept[-5:] == tuple(messages[-5:])


def test_a_reused_call_id_belongs_to_the_nearest_earlier_call() -> None:
    messages = [human(), *tool_round("c1"), *talk(2), *tool_round("c1"), human("newest")]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert parts.kept == tuple(messages[-3:])


def test_a_pending_call_is_kept_with_the_results_it_has() -> None:
    messages = [*talk(3), ai("", "c1", "c2"), result("c1")]
    parts = must(divide(messages, resolved(keep=("tokens", 1))))
    assert parts.kept[-2:] == tuple(messages[-2:])
    assert parts.why[messages[-1].id or ""] == "pending_tool_call"


def test_a_dead_call_further_back_does_not_hold_the_cut() -> None:
    messages = [ai("", "dead"), *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert messages[0] in parts.removed


def test_a_run_of_results_needs_all_its_owners_on_its_side() -> None:
    first, second = ai("", "c1"), ai("", "c2")
    messages = [*talk(2), first, second, result("c1"), result("c2"), human("newest")]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert parts.kept == tuple(messages[-5:])


# C4: never removed


def test_system_messages_are_kept_wherever_they_stand() -> None:
    first, middle = system(), system("subagent")
    messages = [first, *talk(2), middle, *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.kept == (first, middle, *messages[-4:])
    assert parts.why[middle.id or ""] == "system"


def test_early_tool_rounds_of_a_long_first_turn_are_compacted_and_its_question_stays() -> None:
    question = human("do it")
    rounds = [message for n in range(20) for message in tool_round(f"c{n}")]
    parts = must(divide([question, *rounds], resolved(keep=("messages", 10))))
    assert parts.kept == (question, *rounds[-10:])
    assert parts.removed == tuple(rounds[:-10])
    assert parts.why[question.id or ""] == "newest_user_message"


def test_only_the_newest_user_message_is_rescued() -> None:
    older, newest = human(id="x__user"), human(id="y__user")
    messages = [older, ai(), newest, *[ai() for _ in range(6)]]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert older in parts.removed
    assert newest in parts.kept


def test_hidden_messages_reminders_and_old_summaries_are_not_the_users_word() -> None:
    question = human("real")
    messages = [question, hidden(), human("old", name="summary"), *[ai() for _ in range(6)]]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert parts.kept[0] is question
    assert set(ids(messages[1:3])) <= set(ids(parts.removed))


def test_a_hidden_answer_to_a_clarification_is_the_users_word_and_keeps_its_question() -> None:
    asked = ai("", "c1", tool="ask_clarification")
    question = result("c1", "which one?", name="ask_clarification")
    answer = hidden("the second")
    messages = [human("old"), asked, question, answer, *[ai() for _ in range(6)]]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert parts.kept == (asked, question, answer, *messages[-3:])


def test_the_result_of_a_clarification_is_the_users_word_even_without_a_name() -> None:
    asked, answer = ai("", "c1", tool="ask_clarification"), result("c1", "the second")
    messages = [human("old"), asked, answer, *[ai() for _ in range(6)]]
    parts = must(divide(messages, resolved(keep=("messages", 3))))
    assert parts.kept == (asked, answer, *messages[-3:])


def test_a_form_that_answers_a_clarification_is_the_users_word() -> None:
    answer = hidden("{}", human_input_response={"value": "yes"})
    messages = [human("old"), answer, *[ai() for _ in range(6)]]
    assert must(divide(messages, resolved(keep=("messages", 3)))).kept[0] is answer


def test_pinned_messages_are_kept_in_their_place() -> None:
    messages = talk(6)
    parts = must(divide(messages, resolved(keep=("messages", 2)), messages[1], messages[4]))
    assert parts.kept == (messages[1], messages[4], *messages[-2:])
    assert parts.why[messages[1].id or ""] == "pinned"


def test_a_pinned_result_brings_its_call_and_the_other_results() -> None:
    group = [ai("", "c1", "c2"), result("c1"), result("c2")]
    messages = [human(), *group, *talk(4)]
    assert must(divide(messages, resolved(keep=("messages", 2)), group[2])).kept == (*group, *messages[-2:])


def test_a_pinned_call_brings_the_reasoning_that_led_to_it() -> None:
    reasoning = ai([{"type": "reasoning", "reasoning": "hm"}])
    messages = [human(), reasoning, *tool_round("c1"), *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 2)), messages[2]))
    assert parts.kept == (*messages[1:4], *messages[-2:])


def test_pins_beyond_the_budget_are_summarised_the_oldest_first() -> None:
    messages = talk(6)
    policy = resolved(keep=("messages", 2), pin_budget_tokens=25)
    parts = must(divide(messages, policy, *messages[:4]))
    assert parts.kept == (*messages[2:4], *messages[-2:])
    assert [parts.why[m.id or ""] for m in messages[:2]] == ["pin_over_budget"] * 2


def test_a_pin_that_is_too_large_does_not_cost_the_others_their_place() -> None:
    group = [ai("", "c1", "c2"), result("c1"), result("c2")]
    messages = [human(), *group, *talk(4)]
    policy = resolved(keep=("messages", 2), pin_budget_tokens=20)
    parts = must(divide(messages, policy, messages[0], group[0]))
    assert parts.kept == (messages[0], *messages[-2:])


def test_pins_make_the_rest_of_the_kept_part_smaller_when_there_is_a_target() -> None:
    messages = talk(10)
    parts = must(divide(messages, resolved(("tokens", 100), keep=("messages", 10)), messages[0]))
    assert parts.kept == (messages[0], *messages[-4:])


# C5: reminders


def test_a_superseded_reminder_is_dropped_and_the_current_one_is_kept() -> None:
    old, current = reminder("2026-01-01"), reminder("2026-01-02")
    messages = [old, *talk(2), current, *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.dropped == (old,)
    assert parts.kept == (current, *messages[-4:])
    assert parts.why[old.id or ""] == "superseded_reminder"


def test_memory_stays_when_only_the_date_changed() -> None:
    old, facts, current = reminder("2026-01-01", id="x"), memory("x"), reminder("2026-01-02")
    messages = [old, facts, *talk(2), current, *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.kept[:2] == (facts, current)


def test_memory_is_dropped_when_newer_memory_stands_behind_it() -> None:
    older, newer = memory("x"), memory("y")
    messages = [reminder(id="x"), older, *talk(2), newer, *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.dropped == (older,)


def test_a_reminder_without_a_date_is_kept_and_supersedes_nothing() -> None:
    dated, undated = reminder("2026-01-01"), reminder(None)
    messages = [dated, undated, *talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 4))))
    assert parts.kept[:2] == (dated, undated)


def test_dropping_reminders_alone_is_no_reason_for_a_compaction() -> None:
    messages = [reminder("2026-01-01"), reminder("2026-01-02"), human(), ai()]
    assert divide(messages, resolved(keep=("messages", 2))) is None


# C6: nothing to remove


def test_an_empty_thread_has_nothing_to_remove() -> None:
    assert divide([], resolved(keep=("messages", 1))) is None
    assert divide([], resolved(("tokens", 1), keep=("tokens", 1))) is None


def test_a_thread_of_protected_messages_has_nothing_to_remove() -> None:
    messages = [system(), reminder(), human("only")]
    assert divide(messages, resolved(("tokens", 1), keep=("messages", 1))) is None


def test_messages_without_ids_are_divided_like_any_others() -> None:
    messages = [message.model_copy(update={"id": None}) for message in talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert (len(parts.removed), len(parts.kept), parts.why) == (6, 2, {})


def test_messages_with_the_same_id_are_all_accounted_for() -> None:
    messages = [message.model_copy(update={"id": "same"}) for message in talk(4)]
    parts = must(divide(messages, resolved(keep=("messages", 2))))
    assert len(parts.removed) + len(parts.kept) == 8


# Size


def rounds() -> Iterator[BaseMessage]:
    for n in range(2500):
        yield from (human(f"file {n}"), *tool_round(f"c{n}", f"line {n}\n" * 90), ai("ok"))


def one_call_of_thousands() -> Iterator[BaseMessage]:
    names = [f"c{n}" for n in range(5000)]
    yield ai("", *names)
    yield from (result(name) for name in reversed(names))


def calls_that_overlap() -> Iterator[BaseMessage]:
    for n in range(5000):
        yield from (ai("", f"c{n}"), result(f"c{n - 1}"))


def orphans() -> Iterator[BaseMessage]:
    yield from (result("nobody") for _ in range(10_000))


def nudges_and_reminders() -> Iterator[BaseMessage]:
    for _ in range(5000):
        yield from (hidden(), reminder())


def reasoning() -> Iterator[BaseMessage]:
    yield from (ai([{"type": "reasoning", "reasoning": "hm"}]) for _ in range(10_000))


@pytest.mark.parametrize(
    "history",
    [rounds, one_call_of_thousands, calls_that_overlap, orphans, nudges_and_reminders, reasoning],
    ids=lambda history: history.__name__,
)
def test_ten_thousand_messages_are_planned_in_a_second(history: Callable[[], Iterator[BaseMessage]]) -> None:
    messages = list(history())
    pinned = frozenset(message.id or "" for message in messages[::2])
    start = time.process_time()
    parts = partition(messages, resolved(("tokens", 3000)), TokenCounter(), fixed_tokens=100, pinned=pinned)
    valid_request(messages)
    assert time.process_time() - start < 1
    if parts is not None:
        verify(messages, parts)


def test_planning_needs_at_most_three_times_the_memory_of_the_text() -> None:
    messages = list(rounds())
    size = sum(len(message.text) for message in messages)
    tracemalloc.start()
    parts = partition(messages, resolved(("tokens", 3000)), TokenCounter(), fixed_tokens=100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parts is not None
    assert peak < 3 * size
