"""What a provider gets is valid, whatever stands in state (rule C8)."""

from __future__ import annotations

from hypothesis import given
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.repair import NO_RESULT, system_messages_lead, valid_request
from tests.compaction.build import ai, copies, human, ids, result, tool_round
from tests.compaction.histories import histories


def test_a_history_in_order_is_sent_as_it_is() -> None:
    messages = [human(), ai("", "c1", "c2"), result("c2"), result("c1"), ai(), human()]
    sent = valid_request(messages)
    assert sent is not messages
    assert all(mine is theirs for mine, theirs in zip(sent, messages, strict=True))


def test_a_call_without_a_result_gets_an_error_right_behind_it() -> None:
    messages = [human(), ai("", "c1", tool="write"), human("are you there?")]
    sent = valid_request(messages)
    answer = sent[2]
    assert isinstance(answer, ToolMessage)
    assert (answer.tool_call_id, answer.name, answer.status) == ("c1", "write", "error")
    assert answer.content == NO_RESULT
    assert sent[3] is messages[2]


def test_a_call_that_did_not_parse_gets_an_error_too() -> None:
    broken = ai("", invalid_tool_calls=[{"name": "read", "args": "{", "id": "c1", "error": "no JSON"}])
    answer = valid_request([broken])[1]
    assert isinstance(answer, ToolMessage)
    assert (answer.tool_call_id, answer.name) == ("c1", "read")


def test_of_parallel_calls_only_the_unanswered_ones_get_an_error() -> None:
    messages = [ai("", "c1", "c2", "c3"), result("c2")]
    sent = valid_request(messages)
    assert sent[1] is messages[1]
    assert [m.tool_call_id for m in sent[2:] if isinstance(m, ToolMessage)] == ["c1", "c3"]


def test_an_orphan_result_is_not_sent() -> None:
    messages = [result("early"), human(), *tool_round("c1"), result("nobody")]
    assert valid_request(messages) == messages[1:4]


def test_a_result_far_from_its_call_is_sent_behind_it() -> None:
    call, between, answer = ai("", "c1"), human("wait"), result("c1")
    assert valid_request([call, between, answer, human("x", id="x")])[:3] == [call, answer, between]


def test_results_of_two_calls_that_crossed_are_sorted_to_their_calls() -> None:
    one, two = ai("", "c1"), ai("", "c2")
    first, second = result("c1"), result("c2")
    assert valid_request([one, two, first, second]) == [one, first, two, second]


def test_of_two_results_of_one_call_the_newest_is_sent() -> None:
    messages = [ai("", "c1"), result("c1", "interrupted"), result("c1", "done")]
    assert valid_request(messages) == [messages[0], messages[2]]


def test_a_call_made_twice_under_one_id_keeps_both_results() -> None:
    messages = [ai("", "c1", "c1"), result("c1", "one"), result("c1", "two")]
    assert valid_request(messages) == messages


def test_a_reused_id_is_answered_at_each_of_its_calls() -> None:
    messages = [*tool_round("c1"), ai("", "c1")]
    sent = valid_request(messages)
    assert sent[:3] == messages
    assert isinstance(sent[3], ToolMessage)


def test_a_call_in_the_providers_own_form_is_answered() -> None:
    raw = ai([{"type": "tool_use", "id": "c1", "name": "read", "input": {}}])
    assert len(valid_request([raw])) == 2


def test_an_empty_history_is_an_empty_request() -> None:
    assert valid_request([]) == []


@given(histories())
def test_any_history_becomes_a_valid_request(messages: list[BaseMessage]) -> None:
    sent = valid_request(messages)
    waiting: list[str | None] = []
    for message in sent:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert waiting == []
        if isinstance(message, AIMessage):
            waiting = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    assert waiting == []


@given(histories())
def test_repair_leaves_the_state_alone_and_everything_but_results_in_its_order(
    messages: list[BaseMessage],
) -> None:
    before = copies(messages)
    sent = valid_request(messages)
    assert messages == before
    assert [m for m in sent if not isinstance(m, ToolMessage)] == [
        m for m in messages if not isinstance(m, ToolMessage)
    ]
    known = set(ids(messages))
    assert all(m.id in known for m in sent if not (isinstance(m, ToolMessage) and m.content == NO_RESULT))


@given(histories())
def test_a_repaired_request_needs_no_repair(messages: list[BaseMessage]) -> None:
    sent = valid_request(messages)
    assert valid_request(sent) == sent


def test_for_providers_that_want_it_system_messages_lead_and_later_ones_become_notices() -> None:
    messages = [
        SystemMessage("rules", id="s1"),
        HumanMessage("hello", id="h1"),
        SystemMessage("it is Monday", id="s2"),
        AIMessage("hi", id="a1"),
    ]
    sent = system_messages_lead(messages)
    assert [message.type for message in sent] == ["system", "human", "human", "ai"]
    assert sent[0] is messages[0]
    assert "it is Monday" in sent[2].text
    assert sent[2].id == "s2"
    assert [message.type for message in messages] == ["system", "human", "system", "ai"]
