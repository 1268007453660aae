"""A tool's result that is too long for a conversation: all of it in a file, head and tail in the message.

The file is text as the file tools read it, so the agent goes on reading there.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage

from app.agent.tools.workspace import Workspaces
from app.compaction.shorten import head, tail
from app.config import ToolOutputSettings
from app.errors import ThreadkeepError

FOLDER = ".tool-output"

# The file tools show a line only as far as one call may return.
_LONGEST_LINE = 2000
_FOLDABLE = re.compile(rf"([^\n]{{{_LONGEST_LINE}}})(?=[^\n])")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The budget of one result, and where the rest goes."""

    settings: ToolOutputSettings
    workspaces: Workspaces

    async def fitted(self, message: ToolMessage, thread_id: str | None) -> ToolMessage:
        """The message as it is, or shortened. Everything but its text stays: status, name, id, artifact, images.

        When the file cannot be written, the message says so. Half characters, which no provider takes, are replaced.
        """
        text = _text(message.content)
        whole = text.encode(errors="replace").decode()
        if len(whole) <= self.settings.max_chars:
            return message if whole == text else _with(message, whole)
        note = await self._stored(message, whole, thread_id)
        return _with(message, self._shortened(whole, note))

    def _shortened(self, text: str, note: str) -> str:
        start, end = head(text, self.settings.head, len), tail(text, self.settings.tail, len)
        omitted = len(text) - len(start) - len(end)
        told = f"[… {omitted} of {len(text)} characters are left out here. {note} …]"
        return "\n".join(part for part in (start.rstrip("\n"), told, end) if part)

    async def _stored(self, message: ToolMessage, text: str, thread_id: str | None) -> str:
        """A sentence that says where all of it is, or why it is nowhere."""
        if thread_id is None:
            return "The rest is lost: the run has no workspace."
        content = _readable(text)
        path = f"{FOLDER}/{_file_name(message, content)}"
        try:
            await self.workspaces.of(thread_id).write(path, content)
        except ThreadkeepError as error:
            return f"The rest is lost, it could not be written to a file: {error.detail}"
        lines = content.count("\n") + 1
        next_line = _readable(head(text, self.settings.head, len)).count("\n") + 1
        folded = " Longer lines are broken there." if content != text else ""
        return f"All of it is in the file {path} ({lines} lines); read on from line {next_line}.{folded}"


def _text(content: str | list[Any]) -> str:
    """All text of a message's content, its blocks one below the other."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in content if (text := _block_text(block)) is not None)


def _block_text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _with(message: ToolMessage, text: str) -> ToolMessage:
    """The message with ``text`` for all of its own; what is no text stays."""
    content: Any = text
    if not isinstance(message.content, str):
        others = (block for block in message.content if _block_text(block) is None)
        content = [{"type": "text", "text": text}, *others]
    return message.model_copy(update={"content": content})


def _readable(text: str) -> str:
    """The text as the file tools can show all of it: no NUL, no line too long for one look."""
    return _FOLDABLE.sub("\\1\n", text.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def _file_name(message: ToolMessage, content: str) -> str:
    """Tool, call and content: calls reuse ids in real histories, and a call that is repeated writes the same file."""
    tool, call = (_UNSAFE.sub("_", name or "")[:_MAX_NAME] for name in (message.name, message.tool_call_id))
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    return f"{tool or 'tool'}-{call or 'call'}-{digest}.txt"
