"""A conversation as one flattened transcript for a model that reads it as data (rule D3).

Roles, tool names, arguments, result names and errors are visible. Fences are neutralised and secrets replaced here,
before anything is cut, so that no cut can reveal one or hide what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from app.compaction.content import CALL_BLOCKS, as_json, handle, shown
from app.compaction.fence import neutralise
from app.compaction.reference import reference_of
from app.compaction.roles import is_ai, is_human, is_real_user_message, is_tool_result
from app.compaction.types import Redact, unchanged

# A summary tells all of a shorter message; the exact text of a longer one may have to be looked up.
_LONG = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a transcript: its number and speaker, what was said, and the reference it is looked up by."""

    header: str
    body: str
    reference: str

    @property
    def text(self) -> str:
        """The entry as it stands in a prompt."""
        return f"{cited(self.header, self.reference, len(self.body))}\n{self.body}\n"


def cited(header: str, reference: str, chars: int) -> str:
    """The header of a message of so many characters, with its reference when it is long."""
    return f"{header} (ref {reference})" if chars >= _LONG else header


class Transcript:
    """The messages in order, rendered one at a time when asked for, so that nothing is held twice."""

    def __init__(self, messages: Sequence[BaseMessage], redact: Redact = unchanged) -> None:
        self._messages = messages
        self._redact = redact
        # Entries are rendered more than once, and hardly any has a secret.
        self._without_secrets: set[int] = set()
        self._labels = _call_labels(messages)
        self._speakers: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def entry(self, index: int) -> Entry:
        """The message at ``index`` (rule D3)."""
        message = self._messages[index]
        body = neutralise(self._redacted(index, _body(message)))
        reference = reference_of(message.id) if message.id else ""
        return Entry(
            header=f"[{index + 1}] {neutralise(self._named(_speaker(message, self._labels.get(index))))}",
            body=body,
            reference=reference or f"message {index + 1}",
        )

    def _named(self, speaker: str) -> str:
        """Names come from clients and models as texts do; there are few of them."""
        if speaker not in self._speakers:
            self._speakers[speaker] = self._redact(speaker)
        return self._speakers[speaker]

    def _redacted(self, index: int, body: str) -> str:
        if index in self._without_secrets:
            return body
        redacted = self._redact(body)
        if redacted == body:
            self._without_secrets.add(index)
        return redacted


def _call_labels(messages: Sequence[BaseMessage]) -> Mapping[int, str]:
    """The name of the call that each tool result answers, by position: the nearest earlier call of its id."""
    calls: dict[str, str] = {}
    labels: dict[int, str] = {}
    for index, message in enumerate(messages):
        if is_ai(message):
            calls.update((call_id, label) for call_id, label, _ in _calls(message) if call_id)
        elif is_tool_result(message) and (label := calls.get(message.tool_call_id)):
            labels[index] = label
    return labels


def _calls(message: AIMessage) -> Iterator[tuple[str | None, str, Any]]:
    """Id, label and arguments of each call. Calls of one message get a number where they share a tool."""
    parsed = [*message.tool_calls, *message.invalid_tool_calls]
    calls = [_named(call) for call in parsed or _raw_calls(message)]
    names = [name for _, name, _ in calls]
    for position, (call_id, name, args) in enumerate(calls, start=1):
        yield call_id, f"{name} #{position}" if names.count(name) > 1 else name, args


def _named(call: Mapping[str, Any]) -> tuple[str | None, str, Any]:
    call_id = call.get("id")
    function = call.get("function") or call
    given = (function[key] for key in ("args", "arguments", "input") if key in function)
    return call_id, function.get("name") or "unnamed tool", next(given, {})


def _raw_calls(message: AIMessage) -> list[Mapping[str, Any]]:
    """Calls that stand only in the provider's own form, in messages that came from elsewhere."""
    raw = message.additional_kwargs.get("tool_calls") or message.content
    calls = [call for call in raw if isinstance(call, Mapping)] if isinstance(raw, list) else []
    return [call for call in calls if "function" in call or call.get("type") in CALL_BLOCKS]


def _speaker(message: BaseMessage, label: str | None) -> str:
    if is_tool_result(message):
        state = " · error" if message.status == "error" else ""
        return f"tool result · {label or message.name or 'unknown tool'}{state}"
    if is_ai(message):
        return "assistant"
    if is_human(message) and not is_real_user_message(message):
        return "note added by the application"
    role = "user" if is_human(message) else message.type
    return f"{role} · {message.name}" if message.name else role


def _body(message: BaseMessage) -> str:
    parts = [shown(message.content)]
    if is_ai(message):
        parts += [f"→ call {label} {as_json(args)}" for _, label, args in _calls(message)]
    parts += [handle("file", file) for file in _attached_files(message)]
    return "\n".join(part for part in parts if part)


def _attached_files(message: BaseMessage) -> list[Mapping[str, Any]]:
    files = message.additional_kwargs.get("files")
    return [file for file in files if isinstance(file, Mapping)] if isinstance(files, list) else []
