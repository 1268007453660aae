"""What pinned messages cost (rule C4): counted alike when a message is pinned and when the pins are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from langchain_core.messages import BaseMessage

from app.compaction.history import History
from app.compaction.protected import superseded_reminders
from app.compaction.roles import is_system
from app.compaction.tokens import TokenCounter


def pin_prices(
    messages: Sequence[BaseMessage], pinned: Iterable[str], counter: TokenCounter
) -> Mapping[str, int]:
    """Tokens that each pin takes of the budget, in the order given; pins of messages that are not there are left out.

    A pin holds the whole group of its message: a call with its results (rule C3). What an earlier pin holds
    already costs nothing, nor does a system message, which stays anyway, unless it is a reminder that a newer one
    replaced. The newest message of the user and the current reminders cost what they have: they are protected for the
    moment only."""
    history = History.of(messages)
    stays = {i for i, message in enumerate(messages) if is_system(message)} - superseded_reminders(messages)
    places = {message.id: index for index, message in enumerate(messages)}
    held: set[int] = set()
    prices: dict[str, int] = {}
    for message_id in pinned:
        if message_id not in places:
            continue
        new = set(history.group(places[message_id])) - held
        held |= new
        prices[message_id] = sum(counter.message(messages[i]) for i in new if i not in stays)
    return prices
