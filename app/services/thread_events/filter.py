"""What of a thread's stream (v2) a client asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import InvalidInput
from app.services.thread_events.frames import Frame

CHANNELS = (
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
)
_NAMED = "custom:"
_WATCHED = frozenset({"lifecycle", "input"})


def check_channels(channels: Sequence[str], where: str) -> None:
    """Raises InvalidInput for a channel that there is not."""
    for channel in channels:
        if channel not in CHANNELS and not (channel.startswith(_NAMED) and len(channel) > len(_NAMED)):
            raise InvalidInput(
                f"{where}: there is no channel {channel!r}; known: {', '.join(CHANNELS)}, {_NAMED}NAME"
            )


@dataclass(frozen=True, slots=True)
class Subscription:
    """``namespaces`` are beginnings of namespaces, none given: all; ``depth`` is how many parts may follow one."""

    channels: frozenset[str]
    namespaces: tuple[tuple[str, ...], ...] | None = None
    depth: int | None = None

    @property
    def watches(self) -> bool:
        """It wants to know what is going on, not what was said."""
        return self.channels <= _WATCHED

    def has_channel(self, channel: str) -> bool:
        """Whether any frame of the channel may be wanted."""
        if channel in self.channels:
            return True
        return channel == "custom" and any(wanted.startswith(_NAMED) for wanted in self.channels)

    def wants(self, frame: Frame) -> bool:
        named = f"{_NAMED}{frame.name}" if frame.name else None
        if frame.channel not in self.channels and named not in self.channels:
            return False
        if not self.namespaces:
            return True
        return any(self._within(prefix, frame.namespace) for prefix in self.namespaces)

    def _within(self, prefix: Sequence[str], namespace: Sequence[str]) -> bool:
        if len(prefix) > len(namespace):
            return False
        if not all(_same(wanted, part) for wanted, part in zip(prefix, namespace, strict=False)):
            return False
        return self.depth is None or len(namespace) - len(prefix) <= self.depth


WATCHED = Subscription(_WATCHED)


def _same(wanted: str, part: str) -> bool:
    """A part is ``name:id``; the name alone stands for every id."""
    return wanted == part or (":" not in wanted and part.partition(":")[0] == wanted)
