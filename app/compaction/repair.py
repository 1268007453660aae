"""What is sent to a provider is always valid, whatever stands in state (rule C8)."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage


def valid_request(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with each call answered right behind it and no orphan result (rule C8). State is left alone."""
    raise NotImplementedError
