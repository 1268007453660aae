"""Nothing is removed unread: how the removed messages are divided among calls (rule D1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from app.compaction.reading import Position, Reader, Room
from app.compaction.tokens import TokenCounter
from tests.compaction.build import ai, human, result
from tests.compaction.histories import histories

COUNT = TokenCounter().text


def words(name: str, number: int) -> str:
    return " ".join(f"{name}.{i}" for i in range(number))


class Reading:
    """All portions of a reading whose calls have ``budget`` tokens each, less what the summary so far takes."""

    def __init__(
        self, messages: Sequence[BaseMessage], budget: int, calls: int, *, summaries: Sequence[int] = (0,)
    ) -> None:
        reader, at = Reader(messages, COUNT), Position()
        self.portions: list[str] = []
        for calls_after in reversed(range(calls)):
            if reader.finished(at):
                break
            so_far = summaries[min(len(self.portions), len(summaries) - 1)]
            portion = reader.portion(at, Room(budget - so_far, calls_after, budget))
            at = portion.after
            if portion.text:
                self.portions.append(portion.text)
        self.finished = reader.finished(at)
        self.coverage = reader.coverage(at)

    @property
    def text(self) -> str:
        return "\n".join(self.portions)


def test_what_fits_into_one_call_is_read_in_one_call() -> None:
    reading = Reading([human("one"), ai("two"), human("three")], 4000, 8)
    assert len(reading.portions) == 1
    assert reading.coverage == 1.0


def test_more_is_read_in_successive_calls_oldest_first() -> None:
    reading = Reading([human(words(f"m{n}", 100)) for n in range(20)], 3000, 8)
    assert 1 < len(reading.portions) <= 8
    assert reading.coverage == 1.0
    seen = re.findall(r"m(\d+)\.0 ", reading.text)
    assert seen == [str(n) for n in range(20)]


def test_a_message_larger_than_one_call_is_read_across_calls() -> None:
    reading = Reading([human("short"), human(words("w", 3000)), human("end")], 4000, 8)
    assert len(reading.portions) > 2
    assert reading.coverage == 1.0
    assert all(f"w.{i} " in f"{reading.text} " or f"w.{i}\n" in reading.text for i in range(3000))
    assert "(continued)" in reading.text


def test_text_without_word_boundaries_is_not_torn_at_the_end_of_a_call() -> None:
    reading = Reading([human("".join(f"[{i:06d}]" for i in range(4000)))], 3000, 40)
    assert len(reading.portions) > 3
    assert all(f"[{i:06d}]" in reading.text for i in range(4000))


def test_what_does_not_fit_within_the_call_limit_is_shortened_per_message() -> None:
    messages = [ai("", f"c{n}") if n % 2 else result(f"c{n - 1}", words(f"r{n}", 3000)) for n in range(40)]
    reading = Reading(messages, 4000, 8)
    assert len(reading.portions) <= 8
    assert 0 < reading.coverage < 1
    for message, n in [(m, n) for n, m in enumerate(messages) if n % 2 == 0]:
        assert f"r{n}.0 " in reading.text
        assert f"r{n}.2999" in reading.text
        assert f"characters omitted, ref {message.id} …]" in reading.text


def test_small_messages_stay_whole_when_large_ones_are_shortened() -> None:
    messages = [human(f"request {n}: {words('x', 20)}") if n % 2 else ai(words("y", 5000)) for n in range(20)]
    reading = Reading(messages, 4000, 4)
    assert reading.coverage < 1
    assert all(message.content in reading.text for message in messages[1::2])


def test_the_omitted_count_is_exact() -> None:
    message = human(words("w", 5000))
    reading = Reading([message], 1000, 1)
    omitted = int(re.search(r"(\d+) characters omitted", reading.text)[1])
    _, _, body = reading.text.partition("\n")
    head, tail = re.split(r"\n\[… .* …\]\n", body.removesuffix("\n"))
    assert len(head) + omitted + len(tail) == len(message.content)
    assert message.content.startswith(head)
    assert message.content.endswith(tail)
    assert reading.coverage == 1 - omitted / len(message.content)


def test_far_too_many_messages_are_still_all_accounted_for() -> None:
    messages = [human(f"note {n}: {words('x', 30)}") for n in range(5000)]
    reading = Reading(messages, 2000, 3)
    assert reading.finished
    ranges = [
        (int(a), int(b)) for a, b in re.findall(r"^\[(\d+)–(\d+)\] \d+ messages$", reading.text, re.MULTILINE)
    ]
    assert [a for a, _ in ranges] == [1, *(b + 1 for _, b in ranges[:-1])]
    assert ranges[-1][1] == 5000


def test_a_room_in_which_not_a_word_fits_reads_nothing_and_says_so() -> None:
    reading = Reading([human(words("w", 5000))], 5, 2)
    assert reading.portions == []
    assert reading.finished
    assert reading.coverage == 0


BUDGETS = st.sampled_from([150, 400, 1500, 8000])


@settings(deadline=None)
@given(histories(min_events=1, max_events=40), BUDGETS, st.integers(1, 8), st.booleans())
def test_any_history_is_gone_through_and_shortened_only_when_the_call_limit_is_reached(
    messages: list[BaseMessage], budget: int, calls: int, long_summaries: bool
) -> None:
    reading = Reading(messages, budget, calls, summaries=(0, budget // 3) if long_summaries else (0,))
    assert reading.finished
    assert all(COUNT(portion) <= budget for portion in reading.portions)
    assert 0 <= reading.coverage <= 1
    assert reading.coverage == 1 or len(reading.portions) == calls


@settings(deadline=None)
@given(histories(min_events=1, max_events=40), st.sampled_from([400, 1500, 8000]))
def test_with_enough_calls_every_text_of_any_history_is_read_whole(
    messages: list[BaseMessage], budget: int
) -> None:
    reading = Reading(messages, budget, 500)
    assert reading.coverage == 1.0
    read = re.sub(r"\n\n?\[\d+\] [^\n]* \(continued\)\n", "", reading.text)
    for message in messages:
        if isinstance(message.content, str):
            assert set(message.content.split()) <= set(read.split())


def test_where_there_are_far_too_many_messages_most_of_the_room_still_goes_to_what_was_said() -> None:
    messages = [human(f"note {n}: {words('x', 60)}") for n in range(4000)]
    total = sum(COUNT(message.text) for message in messages)
    reading = Reading(messages, 12_000, 8)
    assert reading.finished
    assert reading.coverage > 0.5 * 8 * 12_000 / total
    assert all(f"note {n}:" in reading.text for n in range(0, 4000, 97))
