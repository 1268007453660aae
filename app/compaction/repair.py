"""What is sent to a provider is always valid, whatever stands in state (rule C8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from app.compaction.history import History
from app.compaction.roles import is_ai, is_system, is_tool_result, tool_call_ids

SYSTEM_NOTICE = "[Notice of the system, not of the person:]"
NO_RESULT = "The tool call was interrupted and has no result."


def valid_request(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with every call answered right behind it (rule C8). State is left alone.

    A call without a result gets an error result that says so, an orphan result is left out, a result that
    stands elsewhere is moved behind its call. Of several results of one call the newest is sent. A history in
    order comes back with the same messages, as a new list."""
    if _is_valid(messages):
        return list(messages)
    history = History.of(messages)
    return [sent for index in range(len(history)) for sent in _sent_at(history, index)]


def system_messages_lead(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with every system message behind the leading ones turned into a user message that says so.

    For providers that take system messages at the start only (rule C8): imported histories and reminders have them
    anywhere."""
    lead = next((i for i, message in enumerate(messages) if not is_system(message)), len(messages))
    return [*messages[:lead], *(_as_notice(message) for message in messages[lead:])]


def _as_notice(message: BaseMessage) -> BaseMessage:
    if not is_system(message):
        return message
    return HumanMessage(
        content=f"{SYSTEM_NOTICE}\n{message.text}", id=message.id, additional_kwargs=message.additional_kwargs
    )


def _is_valid(messages: Sequence[BaseMessage]) -> bool:
    """Whether each calling message is followed at once by one result for each call, and no result stands
    elsewhere."""
    unanswered: dict[str, int] = {}
    for message in messages:
        if is_tool_result(message):
            left = unanswered.pop(message.tool_call_id, 0) - 1
            if left < 0:
                return False
            if left > 0:
                unanswered[message.tool_call_id] = left
        elif unanswered:
            return False
        elif is_ai(message):
            unanswered = Counter(tool_call_ids(message))
    return not unanswered


def _sent_at(history: History, index: int) -> Iterator[BaseMessage]:
    if index in history.owners:
        return  # sent behind its call, or not at all
    message = history.messages[index]
    yield message
    if index in history.calls and is_ai(message):
        yield from _results_of(history, index, message)


def _results_of(history: History, index: int, caller: AIMessage) -> Iterator[BaseMessage]:
    """One result for each call: the newest ones that there are, in their order, then errors for the rest."""
    wanted = Counter(history.calls[index])
    chosen: list[int] = []
    for result in reversed(history.results.get(index, ())):
        call_id = history.result_id(result)
        if wanted[call_id] > 0:
            wanted[call_id] -= 1
            chosen.append(result)
    yield from (history.messages[result] for result in reversed(chosen))
    names = {call.get("id"): call.get("name") for call in (*caller.tool_calls, *caller.invalid_tool_calls)}
    for call_id in wanted.elements():
        yield ToolMessage(content=NO_RESULT, tool_call_id=call_id, name=names.get(call_id), status="error")
