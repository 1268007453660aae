"""Pinned messages: set, taken off, and what they take of their budget (rule C4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.agent.summary_message import conversation_of
from app.compaction.pins import pin_prices
from app.config import SummarizationSettings
from app.errors import MessageArchived, NotFound, PinBudgetExceeded, ThreadBusy, ThreadkeepError
from app.persistence.compactions import CompactionStore
from app.persistence.pins import Claim, PinStore
from app.persistence.threads import Thread, ThreadStore
from app.ports import ChatModels, Graphs
from app.services.compaction.compactor import ThreadCompactor


class PinService:
    """The use cases behind ``/pins`` and ``/messages/{id}/pin``. None of them waits for a run or a compaction."""

    def __init__(
        self,
        settings: SummarizationSettings,
        threads: ThreadStore,
        pins: PinStore,
        records: CompactionStore,
        graphs: Graphs,
        models: ChatModels,
        compactor: ThreadCompactor,
    ) -> None:
        self._budget = settings.pin_budget_tokens
        self._threads = threads
        self._pins = pins
        self._records = records
        self._graphs = graphs
        self._models = models
        self._compactor = compactor

    async def pin(self, owner: str, thread_id: str, message_id: str) -> dict[str, Any]:
        """Pin a message of the thread's state, for good; pinning it again changes nothing.

        Raises NotFound (thread, message), MessageArchived, PinBudgetExceeded, and ThreadBusy when a compaction is
        just removing the message.
        """
        thread = await self._thread(owner, thread_id)
        await self._records.settle(thread_id)
        # Claimed first and looked at then: a compaction that begins in between sees the pin.
        claim = await self._pins.claim(thread_id, message_id)
        if claim is None:
            raise _no_thread(thread_id)
        try:
            return await self._checked(thread, message_id, claim)
        except BaseException:
            if claim.added:
                await self._pins.remove(thread_id, message_id)
            raise

    async def unpin(self, owner: str, thread_id: str, message_id: str) -> None:
        """Let compactions remove the message again; it need not be pinned. Raises NotFound for the thread."""
        await self._thread(owner, thread_id)
        await self._pins.remove(thread_id, message_id)

    async def report(self, owner: str, thread_id: str) -> dict[str, Any]:
        """The pins, oldest first, and what they take. ``live`` is false for a message that is not in the state now: its
        pin holds nothing until it is back. Raises NotFound."""
        thread = await self._thread(owner, thread_id)
        pins = await self._pins.list(thread_id)
        prices = await self._prices(thread, [pin.message_id for pin in pins])
        return {
            "data": [
                {
                    "message_id": pin.message_id,
                    "live": pin.message_id in prices,
                    "tokens": prices.get(pin.message_id, 0),
                    "created_at": pin.created_at,
                }
                for pin in pins
            ],
            **self._totals(prices),
        }

    async def _checked(self, thread: Thread, message_id: str, claim: Claim) -> dict[str, Any]:
        prices = await self._prices(thread, claim.pinned)
        if message_id not in prices:
            raise _missing(thread.thread_id, message_id, claim)
        if claim.leaving:
            raise ThreadBusy(f"A compaction is just removing message {message_id!r}; look again in a moment")
        # Of those that are set at once, the later ones have to fit in beside the earlier ones.
        until = claim.pinned[: claim.pinned.index(message_id) + 1]
        total = sum(prices.get(earlier, 0) for earlier in until)
        if claim.added and total > self._budget:
            raise PinBudgetExceeded(
                f"Pinning message {message_id!r} would hold {total} tokens in pinned messages, "
                f"{total - prices[message_id]} without it; summarization.pin_budget_tokens allows {self._budget}"
            )
        return {"message_id": message_id, "pinned": True, **self._totals(prices)}

    def _totals(self, prices: Mapping[str, int]) -> dict[str, int]:
        return {"pinned_tokens": sum(prices.values()), "pin_budget_tokens": self._budget}

    async def _prices(self, thread: Thread, pinned: Sequence[str]) -> Mapping[str, int]:
        """What each pin of a message in the state takes, in tokens."""
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state({"configurable": {"thread_id": thread.thread_id}})
        self._graphs.check_compactable(thread.graph_name, head.values)
        model_name = self._graphs.spec(thread.graph_name).model or self._models.default
        messages = conversation_of(head.values).messages
        return pin_prices(messages, pinned, self._compactor.counter(model_name))

    async def _thread(self, owner: str, thread_id: str) -> Thread:
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise _no_thread(thread_id)
        return thread


def _missing(thread_id: str, message_id: str, claim: Claim) -> ThreadkeepError:
    if not claim.archived:
        return NotFound(f"There is no message {message_id!r} on thread {thread_id}")
    return MessageArchived(
        f"Message {message_id!r} was compacted: the model sees the summary instead. Only messages that it still "
        "sees can be pinned"
    )


def _no_thread(thread_id: str) -> NotFound:
    return NotFound(f"There is no thread {thread_id}")
