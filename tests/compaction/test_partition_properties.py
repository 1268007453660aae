"""Whatever the history, a partition keeps its promises (rules C2-C7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from app.compaction.history import History
from app.compaction.partition import Partition, partition
from app.compaction.protected import newest_user_message
from app.compaction.roles import is_reminder
from app.compaction.tokens import TokenCounter
from app.compaction.trigger import ResolvedPolicy, resolve
from app.compaction.types import CompactionPolicy
from app.compaction.verify import verify
from tests.compaction.build import ids
from tests.compaction.histories import histories, pins, policies

COUNTER = TokenCounter()
FIXED = 100
windows = st.sampled_from([None, 500, 4000])


def divided(messages: list[BaseMessage], policy: CompactionPolicy, window: int | None) -> Partition | None:
    return partition(messages, resolve(policy, window), COUNTER, fixed_tokens=FIXED)


def orphan_results(messages: Iterable[BaseMessage]) -> set[str | None]:
    called: set[str | None] = set()
    orphans = set()
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id not in called:
            orphans.add(message.id)
        if isinstance(message, AIMessage):
            called.update(call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls))
    return orphans


def unanswered_calls(messages: Sequence[BaseMessage]) -> set[tuple[str | None, str | None]]:
    """(message, call id) of calls whose nearest later result belongs to nobody or to a later call."""
    waiting: dict[str | None, str | None] = {}
    dead = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.pop(message.tool_call_id, None)
        if isinstance(message, AIMessage):
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                if call["id"] in waiting and waiting[call["id"]] != message.id:
                    dead.add((waiting[call["id"]], call["id"]))
                waiting[call["id"]] = message.id
    return dead | {(message_id, call_id) for call_id, message_id in waiting.items()}


@given(histories(), policies(), windows)
def test_no_result_loses_its_call_and_no_call_its_result(
    messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    parts = divided(messages, policy, window)
    if parts is not None:
        assert orphan_results(parts.kept) | orphan_results(parts.removed) == orphan_results(messages)
        assert unanswered_calls(parts.kept) | unanswered_calls(parts.removed) == unanswered_calls(messages)


@given(histories(), policies(), windows)
def test_parallel_calls_and_their_results_stay_together(
    messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    parts = divided(messages, policy, window)
    if parts is not None:
        kept = set(ids(parts.kept))
        history = History.of(messages)
        for owner, results in history.results.items():
            sides = {messages[index].id in kept for index in (owner, *results)}
            assert len(sides) == 1


@given(histories(), policies(), windows)
def test_removed_and_kept_and_dropped_are_the_input_in_its_order(
    messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    parts = divided(messages, policy, window)
    if parts is not None:
        assert parts.removed
        everything = (*parts.removed, *parts.kept, *parts.dropped)
        assert Counter(map(id, everything)) == Counter(map(id, messages))
        position = {message.id: index for index, message in enumerate(messages)}
        for part in (parts.removed, parts.kept, parts.dropped):
            assert ids(part) == sorted(ids(part), key=lambda i: position[i])
        assert parts.why.keys() == position.keys()


@given(st.data(), histories(min_events=1), policies(), windows)
def test_what_is_protected_is_never_removed(
    data: st.DataObject, messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    pinned = data.draw(pins(messages))
    policy_with_room = resolve(policy, window)
    parts = partition(messages, policy_with_room, COUNTER, fixed_tokens=FIXED, pinned=pinned)
    if parts is None:
        return
    newest = newest_user_message(History.of(messages))
    for message in parts.removed:
        assert not isinstance(message, SystemMessage)
        assert not is_reminder(message)
        assert newest is None or message is not messages[newest]
        assert message.id not in pinned or parts.why[message.id or ""] == "pin_over_budget"
    assert messages[-1].id in {*ids(parts.kept), *ids(parts.dropped)}


@given(histories(), policies(), windows)
def test_a_second_partition_right_after_the_first_removes_nothing(
    messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    parts = divided(messages, policy, window)
    if parts is not None:
        assert divided(list(parts.kept), policy, window) is None


@given(st.data(), histories(min_events=1), policies(), st.integers(0, 3000))
def test_a_second_partition_with_pins_and_a_strict_target_removes_nothing(
    data: st.DataObject, messages: list[BaseMessage], policy: CompactionPolicy, target: int
) -> None:
    pinned = data.draw(pins(messages))

    def strict(history: Sequence[BaseMessage]) -> Partition | None:
        return partition(
            history, resolve(policy, 4000), COUNTER, fixed_tokens=FIXED, pinned=pinned, target_tokens=target
        )

    parts = strict(messages)
    if parts is not None:
        assert strict(parts.kept) is None


@given(st.data(), histories(), policies(), windows)
def test_every_partition_passes_the_last_look(
    data: st.DataObject, messages: list[BaseMessage], policy: CompactionPolicy, window: int | None
) -> None:
    pinned = data.draw(pins(messages))
    parts = partition(messages, resolve(policy, window), COUNTER, fixed_tokens=FIXED, pinned=pinned)
    if parts is not None:
        verify(messages, parts)


@given(histories(min_events=10), policies())
@settings(max_examples=50)
def test_a_stricter_target_never_keeps_more(messages: list[BaseMessage], policy: CompactionPolicy) -> None:
    def kept(target: int) -> int:
        settings_: ResolvedPolicy = resolve(policy, 4000)
        parts = partition(messages, settings_, COUNTER, fixed_tokens=FIXED, target_tokens=target)
        return len(messages) if parts is None else len(parts.kept)

    assert kept(0) <= kept(500) <= kept(5000)
