"""A partition that would break the history is refused, whoever made it (rule C7)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain_core.messages import BaseMessage

from app.compaction.partition import Partition
from app.compaction.verify import verify
from app.errors import CompactionInvariantError
from tests.compaction.build import ai, hidden, human, reminder, result, system, tool_round


def parts(
    removed: Sequence[BaseMessage], kept: Sequence[BaseMessage], dropped: Sequence[BaseMessage] = ()
) -> Partition:
    return Partition(tuple(removed), tuple(kept), tuple(dropped), {})


def refused(messages: Sequence[BaseMessage], partition: Partition) -> str:
    with pytest.raises(CompactionInvariantError) as raised:
        verify(messages, partition)
    assert raised.value.code == "compaction_invariant"
    return str(raised.value)


def test_a_sound_partition_passes() -> None:
    messages = [system(), reminder(), human(), *tool_round("c1"), human()]
    verify(messages, parts(messages[2:5], [messages[0], messages[5]], [messages[1]]))


def test_a_message_without_an_id_is_refused() -> None:
    messages = [human(id=None), human()]
    assert "no id" in refused(messages, parts(messages[:1], messages[1:]))


def test_two_messages_with_one_id_are_refused() -> None:
    messages = [human(id="x"), human(id="x"), human()]
    assert "'x'" in refused(messages, parts(messages[:2], messages[2:]))


def test_a_lost_message_is_refused() -> None:
    messages = [human(), ai(), human()]
    assert "not the history" in refused(messages, parts(messages[:1], messages[2:]))


def test_a_doubled_message_is_refused() -> None:
    messages = [human(), ai(), human()]
    assert "not the history" in refused(messages, parts(messages[:2], messages[1:]))


def test_a_message_from_elsewhere_is_refused() -> None:
    messages = [human(), ai(), human()]
    assert "not the history" in refused(messages, parts(messages[:1], [ai(), messages[2]]))


def test_another_order_is_refused() -> None:
    messages = [human(), ai(), ai(), human()]
    assert "order" in refused(messages, parts(messages[:1], [messages[2], messages[1], messages[3]]))


def test_removing_nothing_is_refused() -> None:
    messages = [human(), ai()]
    assert "nothing" in refused(messages, parts([], messages))


def test_a_result_without_its_call_is_refused() -> None:
    messages = [human(), *tool_round("c1"), human()]
    assert "'c1'" in refused(messages, parts(messages[:2], messages[2:]))


def test_a_call_without_its_result_is_refused() -> None:
    messages = [human(), ai("", "c1"), human(), result("c1")]
    assert "'c1'" in refused(messages, parts([messages[0], messages[3]], messages[1:3]))


def test_a_result_that_would_find_another_call_of_its_id_is_refused() -> None:
    messages = [*tool_round("c1"), *tool_round("c1"), human()]
    assert "'c1'" in refused(
        messages, parts([messages[1], messages[2]], [messages[0], messages[3], messages[4]])
    )


def test_removing_a_system_message_is_refused() -> None:
    messages = [human(), system(), human()]
    assert "system" in refused(messages, parts(messages[:2], messages[2:]))


def test_removing_what_the_user_said_last_is_refused() -> None:
    messages = [human(), hidden(), ai()]
    assert "human" in refused(messages, parts(messages[:1], messages[1:]))
