"""What clients ask of a thread's stream (v2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.services.thread_events.filter import Subscription, check_channels

_MAX_SEQ = 2**63 - 1


class EventStreamRequest(BaseModel):
    """What a client wants to see. ``since`` is the highest ``seq`` that it has seen."""

    model_config = ConfigDict(extra="forbid")

    channels: list[str]
    namespaces: list[list[str]] | None = None
    depth: Annotated[int, Field(ge=0)] | None = None
    since: Annotated[int, Field(ge=0, le=_MAX_SEQ)] | None = None

    def subscription(self, where: str) -> Subscription:
        """Raises InvalidInput."""
        check_channels(self.channels, f"{where}.channels")
        namespaces = None if self.namespaces is None else tuple(map(tuple, self.namespaces))
        return Subscription(frozenset(self.channels), namespaces, self.depth)


class Unsubscribe(BaseModel):
    """Which subscription of a WebSocket is to end."""

    model_config = ConfigDict(extra="forbid")

    subscription_id: str
