"""A message without its secrets, for an archive that must not hold them."""

from __future__ import annotations

from langchain_core.messages import BaseMessage

from app.redaction import Redactor

_FIELDS = (
    "content",
    "name",
    "additional_kwargs",
    "response_metadata",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_chunks",
    "artifact",
)


def without_secrets(message: BaseMessage, redactor: Redactor) -> BaseMessage:
    """The message itself when it has none, else a copy with placeholders in text, calls, attachments and
    what is said of it."""
    redacted = {
        name: clean
        for name in (*_FIELDS, *(message.model_extra or ()))
        if (value := getattr(message, name, None)) and (clean := redactor.value(value)) != value
    }
    return message.model_copy(update=redacted) if redacted else message
