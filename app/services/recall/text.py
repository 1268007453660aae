"""What of a message can be found and read again: all its words, and none of its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from app.compaction.content import as_json, handle, shown
from app.compaction.reference import reference_of
from app.compaction.roles import HIDDEN_FLAG, REMINDER_FLAG
from app.ports import HISTORY_TOOLS

_BYTES = re.compile(r"[A-Za-z0-9+/=_-]{256,}")
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool result"}
_CALLS = ("tool_calls", "invalid_tool_calls")


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it is searched and shown. ``name`` is the tool's or the speaker's; ``hidden`` ones are not for
    people; ``reminder`` ones are of the service itself."""

    message_id: str
    role: str
    name: str | None
    text: str = field(repr=False)
    hidden: bool = False
    reminder: bool = False

    @property
    def reference(self) -> str:
        return reference_of(self.message_id)

    @property
    def speaker(self) -> str:
        """``tool result · read_file``."""
        return f"{self.role} · {self.name}" if self.name else self.role

    @property
    def looked_up(self) -> bool:
        """Whether it repeats what was found earlier: it must not stand before the originals."""
        return self.role == "tool result" and self.name in HISTORY_TOOLS


def said_by(message: BaseMessage) -> Said:
    fields = {name: getattr(message, name, None) for name in ("id", "type", "name", "content", *_CALLS)}
    return said(fields | {"additional_kwargs": message.additional_kwargs})


def said(fields: Mapping[str, Any]) -> Said:
    """From a message's fields, as its JSON in the archive has them. Missing ones are empty."""
    kind = str(fields.get("type") or "").removesuffix("MessageChunk").lower()
    extra = fields.get("additional_kwargs")
    flags = extra if isinstance(extra, Mapping) else {}
    name = fields.get("name")
    return Said(
        message_id=str(fields.get("id") or ""),
        role=_ROLES.get(kind, kind or "message"),
        name=name if isinstance(name, str) and name else None,
        text=_clean("\n".join(part for part in _parts(fields, flags) if part)),
        hidden=bool(flags.get(HIDDEN_FLAG)),
        reminder=bool(flags.get(REMINDER_FLAG)),
    )


def _parts(fields: Mapping[str, Any], flags: Mapping[str, Any]) -> Iterator[str]:
    content = fields.get("content")
    if isinstance(content, str | list):
        yield shown(content)
    for call in _calls(fields, flags):
        function = call.get("function")
        called: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        name = str(called.get("name") or "unnamed tool")
        yield f"→ call {name}"
        # What was searched for is not what was found.
        if name not in HISTORY_TOOLS:
            yield from _lines(called.get("args", called.get("arguments")))
    files = flags.get("files")
    for file in files if isinstance(files, list) else ():
        if isinstance(file, Mapping):
            yield handle("file", file)


def _calls(fields: Mapping[str, Any], flags: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parsed calls, else those in the provider's own form, which imported messages may have alone."""
    parsed = [call for name in _CALLS for call in fields.get(name) or ()]
    raw = flags.get("tool_calls")
    calls = parsed or (raw if isinstance(raw, list) else [])
    return [call for call in calls if isinstance(call, Mapping)]


def _lines(value: Any, key: str = "") -> Iterator[str]:
    """Arguments with their texts as they are: in JSON, the line breaks of a file would be letters."""
    prefix = f"{key}: " if key else ""
    match value:
        case None | "":
            return
        case str() if _BYTES.fullmatch(value):
            yield f"{prefix}[{len(value)} characters of data]"
        case str():
            yield prefix + as_json(value)
        case Mapping():
            for name, item in value.items():
                yield from _lines(item, f"{key}.{name}" if key else str(name))
        case list() | tuple() if any(isinstance(item, Mapping | list | tuple) for item in value):
            for item in value:
                yield from _lines(item, key)
        case list() | tuple():
            yield prefix + ", ".join(as_json(item) for item in value)
        case _:
            yield prefix + as_json(value)


def _clean(text: str) -> str:
    """Without what neither a database nor a provider takes: NUL and halves of characters."""
    if "\0" not in text and text.isascii():
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def texts(messages: Sequence[BaseMessage]) -> list[Said]:
    """Of messages that have an id and something to find."""
    made = (said_by(message) for message in messages if message.id)
    return [each for each in made if is_found(each)]


def is_found(each: Said) -> bool:
    """Reminders are of the present, and what was looked up is found where it came from."""
    return bool(each.text.strip()) and not each.reminder and not each.looked_up
