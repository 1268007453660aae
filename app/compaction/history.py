"""A history with its tool calls and their results joined: what cuts, repairs and checks are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from langchain_core.messages import BaseMessage

from app.compaction.roles import CLARIFICATION_TOOL, is_ai, is_reasoning_only, is_tool_result, tool_call_ids


@dataclass(frozen=True)
class History:
    """Messages by position. ``owners`` gives for each tool result the position of the message that called,
    None for an orphan; ``calls`` gives for each calling message the ids of its calls."""

    messages: tuple[BaseMessage, ...]
    owners: Mapping[int, int | None]
    calls: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> History:
        """Joins each result with the nearest earlier call of its id, since real histories reuse ids (rule
        C3)."""
        owners: dict[int, int | None] = {}
        calls: dict[int, tuple[str, ...]] = {}
        newest_call: dict[str, int] = {}
        for index, message in enumerate(messages):
            if is_tool_result(message):
                owners[index] = newest_call.get(message.tool_call_id)
            elif is_ai(message) and (ids := tool_call_ids(message)):
                calls[index] = ids
                newest_call.update(dict.fromkeys(ids, index))
        return cls(tuple(messages), owners, calls)

    def __len__(self) -> int:
        return len(self.messages)

    @cached_property
    def results(self) -> Mapping[int, tuple[int, ...]]:
        """Positions of the results of each calling message."""
        found: dict[int, list[int]] = {}
        for index, owner in self.owners.items():
            if owner is not None:
                found.setdefault(owner, []).append(index)
        return {owner: tuple(indices) for owner, indices in found.items()}

    @cached_property
    def pending(self) -> int | None:
        """Position of the message with calls that may still be answered: only tool results follow it (rule
        C3)."""
        last = next((i for i in range(len(self) - 1, -1, -1) if i not in self.owners), None)
        return last if last is not None and self.unanswered(last) else None

    @cached_property
    def clarifications(self) -> frozenset[tuple[int, str | None]]:
        """Calls that ask the user something: (position, call id)."""
        return frozenset(
            (index, call["id"])
            for index in self.calls
            if is_ai(message := self.messages[index])
            for call in message.tool_calls
            if call["name"] == CLARIFICATION_TOOL
        )

    def unanswered(self, index: int) -> Counter[str]:
        """Ids of the calls of a message that no result answers, with how often."""
        answered = Counter(self.result_id(result) for result in self.results.get(index, ()))
        return Counter(self.calls.get(index, ())) - answered

    def result_id(self, index: int) -> str:
        """The call id that the tool result at a position carries."""
        message = self.messages[index]
        return message.tool_call_id if is_tool_result(message) else ""

    def leads_on(self, index: int) -> bool:
        """Whether the message is reasoning that the next message goes on from."""
        if index + 1 >= len(self) or not is_reasoning_only(self.messages[index]):
            return False
        return is_ai(self.messages[index + 1])

    def group(self, index: int) -> tuple[int, ...]:
        """Positions of all that the message at ``index`` cannot be without: the message that called, the
        results of its calls, the reasoning that led to them. A message that belongs to nothing is a group of
        its own."""
        leader = self.owners.get(index, index)
        if leader is None:
            return (index,)
        while self.leads_on(leader):
            leader += 1
        first = leader
        while first > 0 and self.leads_on(first - 1):
            first -= 1
        return (*range(first, leader + 1), *self.results.get(leader, ()))
