"""The section ``tool_output``: how much of a tool's result stands in the conversation."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from app.config.values import PositiveWhole, Section, refuse


class ToolOutputSettings(Section):
    """A result of more than ``max_chars`` characters goes to a file of the workspace; its first ``head_chars`` and last
    ``tail_chars`` stay (None: a fifth and a tenth of ``max_chars``)."""

    enabled: bool = True
    max_chars: PositiveWhole = 20_000
    head_chars: PositiveWhole | None = None
    tail_chars: PositiveWhole | None = None

    @field_validator("tail_chars")
    @classmethod
    def _less_than_all(cls, tail: int | None, info: Any) -> int | None:
        most, head = info.data.get("max_chars"), info.data.get("head_chars")
        if tail is not None and most is not None and (head or 0) + tail > most:
            raise refuse(f"must not be above max_chars ({most}), the head included")
        return tail

    @property
    def head(self) -> int:
        return min(self.max_chars, self.head_chars or max(1, self.max_chars // 5))

    @property
    def tail(self) -> int:
        return min(self.max_chars - self.head, self.tail_chars or self.max_chars // 10)
