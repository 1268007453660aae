"""What is not kept of a secret: nothing of it in a record, and in the archive only where originals are wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage

from app.compaction.secrets import without_secrets
from app.redaction import Redactor

if TYPE_CHECKING:
    from app.persistence.compactions import CompactionRecord

_TEXTS = ("instructions", "error", "summary_text", "models_tried")


class Discretion:
    """``archive_originals``: the archive keeps what was said as it was said, for the owner of the thread alone."""

    def __init__(self, redactor: Redactor | None = None, *, archive_originals: bool = True) -> None:
        self._redactor = redactor or Redactor()
        self._archive_originals = archive_originals

    def text(self, text: str) -> str:
        return self._redactor.text(text)

    def record(self, record: CompactionRecord) -> CompactionRecord:
        """The record as it may be kept, whoever wrote its texts: a model, a provider's error, a person."""
        return replace(record, **{name: self._redactor.value(getattr(record, name)) for name in _TEXTS})

    async def archived(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """The messages as they may be archived."""
        if self._archive_originals:
            return messages
        # A large archive takes seconds, and nobody else is to wait for it.
        return await asyncio.to_thread(
            lambda: [without_secrets(message, self._redactor) for message in messages]
        )
