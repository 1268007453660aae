"""What a draft covers, and whether a later history still is that."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from app.compaction.cover import Cover, changes, cover_of, covered, divided
from app.compaction.partition import partition
from app.compaction.tokens import TokenCounter
from app.compaction.trigger import resolve
from app.compaction.types import Compaction, CompactionPolicy
from tests.compaction.build import ids
from tests.compaction.histories import histories, policies

COUNTER = TokenCounter()


def digest(message: BaseMessage) -> str:
    return hashlib.sha256(message.model_dump_json().encode("utf-8", "surrogatepass")).hexdigest()


def drafted(messages: list[BaseMessage], policy: CompactionPolicy) -> tuple[Compaction, Cover] | None:
    parts = partition(messages, resolve(policy, 4000), COUNTER, fixed_tokens=100)
    if parts is None:
        return None
    made = Compaction(parts.removed, parts.kept, parts.dropped, "summary", 100, 50, 1.0, "m", ())
    return made, cover_of(messages, made, digest)


@given(histories(), histories(max_events=5), policies())
def test_what_came_since_is_kept_behind_what_the_draft_keeps(
    messages: list[BaseMessage], since: list[BaseMessage], policy: CompactionPolicy
) -> None:
    found = drafted(messages, policy)
    if found is None:
        return
    made, cover = found
    newer = [message.model_copy(update={"id": f"since-{message.id}"}) for message in since]
    assert changes(cover, [*messages, *newer], digest) == []
    parts = divided(cover, [*messages, *newer])
    assert parts.removed == made.removed
    assert parts.dropped == made.dropped
    assert ids(parts.kept) == [*ids(made.kept), *ids(newer)]
    taken = list(covered(cover, [*messages, *newer], digest))
    assert sorted(ids(taken)) == sorted([*ids(made.removed), *ids(made.dropped)])


@given(st.data(), histories(min_events=1), policies())
def test_no_change_of_a_covered_message_goes_unseen(
    data: st.DataObject, messages: list[BaseMessage], policy: CompactionPolicy
) -> None:
    found = drafted(messages, policy)
    if found is None:
        return
    _, cover = found
    index = data.draw(st.integers(0, len(messages) - 1))
    edited = messages[index].model_copy(update={"content": "something else entirely"})
    extra = HumanMessage("new", id="new")
    for history in (
        [*messages[:index], *messages[index + 1 :]],
        [*messages[:index], edited, *messages[index + 1 :]],
        [*messages[:index], extra, *messages[index:]],
    ):
        assert len(changes(cover, history, digest)) == 1


def test_the_words_name_what_changed_but_not_without_end() -> None:
    messages: list[BaseMessage] = [AIMessage(str(number), id=f"m{number}") for number in range(9)]
    made = Compaction(tuple(messages[:7]), tuple(messages[7:]), (), "s", 9, 5, 1.0, None, ())
    cover = cover_of(messages, made, digest)
    edited = [AIMessage("other", id="m8")]
    assert changes(cover, [*messages[:8], *edited], digest) == ["message 'm8' is changed"]
    assert changes(cover, messages[:6], digest) == ["messages 'm6', 'm7', 'm8' are no longer there"]
    assert changes(cover, [], digest) == [
        "messages 'm0', 'm1', 'm2', 'm3', 'm4' and 4 more are no longer there"
    ]
    assert changes(cover, [messages[1], messages[0], *messages[2:]], digest) == [
        "messages were put before or between those it covers"
    ]
