"""Counting costs what is new (rule B4)."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from hypothesis import given
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from app.compaction.tokens import TokenCounter
from app.compaction.types import Context
from tests.compaction.build import ai, copies, human, result
from tests.compaction.histories import histories


class Tally:
    """A counter of the user's that remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, messages: Sequence[BaseMessage]) -> int:
        self.asked += len(messages)
        return 10 * len(messages)


def rounds(count: int) -> list[BaseMessage]:
    return [
        message
        for n in range(count)
        for message in (
            human(f"look at file {n} " * 9),
            ai("", f"c{n}"),
            result(f"c{n}", f"line {n}\n" * 90),
            ai(f"{n} ok"),
        )
    ]


def test_a_message_is_counted_once_however_often_it_is_asked_for() -> None:
    tally, messages = Tally(), rounds(5)
    counter = TokenCounter(custom=tally)
    for size in range(1, 21):
        counter.messages(messages[:size])
    counter.breakdown(Context(messages=messages))
    assert tally.asked == 20


def test_a_history_read_again_from_a_checkpoint_is_not_counted_again() -> None:
    tally, messages = Tally(), rounds(5)
    counter = TokenCounter(custom=tally)
    assert counter.messages(messages) == counter.messages(copies(messages))
    assert tally.asked == 20


def test_a_message_that_was_replaced_under_its_id_is_counted_anew() -> None:
    counter = TokenCounter()
    old = human("short", id="x")
    assert counter.message(human("long " * 100, id="x")) > counter.message(old)
    call = ai("", "c1", id="y")
    edited = call.model_copy(update={"tool_calls": [{**call.tool_calls[0], "args": {"path": "word " * 100}}]})
    assert counter.message(edited) > counter.message(call)


def test_messages_of_other_threads_with_the_same_ids_are_not_mixed_up() -> None:
    counter = TokenCounter()
    first, second = human("a" * 4000, id="1"), human("中" * 4000, id="1")
    assert counter.message(first) < counter.message(second) / 2


def test_a_message_that_is_gone_leaves_no_trace_in_the_count_of_another() -> None:
    counter = TokenCounter()
    for n in range(2000):
        text = "word " * (n % 50)
        assert counter.message(human(text)) == TokenCounter().message(human(text))


def test_the_counter_does_not_keep_messages_alive() -> None:
    counter, messages = TokenCounter(), rounds(50)
    counter.messages(messages)
    held = sum(isinstance(thing, BaseMessage) for thing in gc.get_objects())
    del messages
    gc.collect()
    assert sum(isinstance(thing, BaseMessage) for thing in gc.get_objects()) <= held - 200


def test_a_counter_may_die_before_its_messages() -> None:
    messages = rounds(3)
    counter = TokenCounter()
    counter.messages(messages)
    del counter
    gc.collect()
    del messages
    gc.collect()
    assert TokenCounter().message(human("still counting")) > 0


@given(histories())
def test_what_is_remembered_is_what_a_fresh_counter_says(messages: list[BaseMessage]) -> None:
    counter = TokenCounter()
    counter.messages(messages)
    assert (
        counter.messages(copies(messages)) == counter.messages(messages) == TokenCounter().messages(messages)
    )


def best_of(times: int, work: object) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()  # type: ignore[operator]
        return time.perf_counter() - start

    return min(once() for _ in range(times))


def test_ten_thousand_known_messages_cost_a_fifth_of_a_plain_count_or_less() -> None:
    messages = rounds(2500)
    counter = TokenCounter()
    counter.messages(messages)
    warm = best_of(5, lambda: counter.breakdown(Context(messages=list(messages))))
    plain = best_of(3, lambda: count_tokens_approximately(messages, use_usage_metadata_scaling=True))
    assert warm <= 0.2 * plain
