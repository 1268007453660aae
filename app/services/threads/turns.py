"""Turns of a conversation as people see it: a question, and what was answered until the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.compaction.roles import CLARIFICATION_ANSWER, HIDDEN_FLAG, SUMMARY_NAME
from app.services.threads.timeline import PageRequest, TimelineService

_PAGE = 100

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and all that follows it, oldest first."""

    question: Message
    replies: Sequence[Message]

    @property
    def answers(self) -> list[Message]:
        return [message for message in self.replies if is_answer(message)]

    @property
    def ids(self) -> list[str]:
        return [message["id"] for message in (self.question, *self.replies)]


class Turns:
    """Reads turns from whole conversations, archived messages included."""

    def __init__(self, timelines: TimelineService) -> None:
        self._timelines = timelines

    async def newest(self, owner: str, thread_id: str) -> Turn | None:
        """None when nobody has asked anything. Raises NotFound."""
        replies: list[Message] = []
        async for message in self._backwards(owner, thread_id):
            if is_question(message):
                return Turn(message, replies[::-1])
            replies.append(message)
        return None

    async def around(self, owner: str, thread_id: str, message_id: str) -> tuple[Message, Message | None]:
        """A message and the next question after it, if there is one. Raises NotFound."""
        found = await self._page(owner, thread_id, PageRequest(1, around=message_id))
        entry = next(entry for entry in found["data"] if entry["message"]["id"] == message_id)
        start, total = entry["seq"] + 1, found["total"]
        while start <= total:
            after = await self._page(owner, thread_id, PageRequest(_PAGE, before_seq=start + _PAGE))
            following = [later["message"] for later in after["data"] if later["seq"] >= start]
            if question := next(filter(is_question, following), None):
                return entry["message"], question
            start += _PAGE
        return entry["message"], None

    async def _backwards(self, owner: str, thread_id: str) -> AsyncIterator[Message]:
        before: int | None = None
        while True:
            page = await self._page(owner, thread_id, PageRequest(_PAGE, before_seq=before))
            for entry in reversed(page["data"]):
                yield entry["message"]
            before = page["next_before_seq"]
            if before is None:
                return

    async def _page(self, owner: str, thread_id: str, wanted: PageRequest) -> dict[str, Any]:
        shown = PageRequest(wanted.limit, wanted.before_seq, wanted.around, include_hidden=True)
        return await self._timelines.page(owner, thread_id, shown)


def is_question(message: Message) -> bool:
    """Whether a person said it: what is hidden counts only where it answers a clarification."""
    if message["type"] != "human" or message.get("name") == SUMMARY_NAME:
        return False
    return not _hidden(message) or bool(_extras(message).get(CLARIFICATION_ANSWER))


def is_answer(message: Message) -> bool:
    """Whether the model said it to the person."""
    return message["type"] == "ai" and not _hidden(message)


def is_final(message: Message) -> bool:
    """Whether it is an answer in words that calls no tool: the end of a turn."""
    return is_answer(message) and not message.get("tool_calls") and bool(text_of(message).strip())


def text_of(message: Message) -> str:
    """The words of a message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    texts = (block if isinstance(block, str) else block.get("text") for block in content)
    return "".join(text for text in texts if isinstance(text, str))


def _hidden(message: Message) -> bool:
    return bool(_extras(message).get(HIDDEN_FLAG))


def _extras(message: Message) -> Mapping[str, Any]:
    return message.get("additional_kwargs") or {}
