"""A new thread that goes on from an earlier turn of another one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from app.errors import Conflict, NotFound
from app.ports import Graphs
from app.services.threads.copies import ThreadCopies
from app.services.threads.lineage import Lineages
from app.services.threads.service import ThreadService
from app.services.threads.state import HEAD, Graph, Place, StateService, StateWrite
from app.services.threads.turns import Turns, is_answer

# What LangGraph calls a write that is nothing but a checkpoint once more.
_COPY = "__copy__"
_TITLE = "title"


@dataclass(frozen=True, slots=True)
class Branch:
    """The new thread, and the checkpoint of the old one that it goes on from."""

    thread_id: str
    checkpoint_id: str


class ThreadBranches:
    """The use case behind ``POST /threads/{t}/branches``."""

    def __init__(
        self,
        threads: ThreadService,
        states: StateService,
        copies: ThreadCopies,
        graphs: Graphs,
        lineages: Lineages,
        turns: Turns,
    ) -> None:
        self._threads = threads
        self._states = states
        self._copies = copies
        self._graphs = graphs
        self._lineages = lineages
        self._turns = turns

    async def branch(self, owner: str, thread_id: str, message_id: str, title: str | None) -> Branch:
        """A copy of the thread that stands at the end of the turn which has the answer ``message_id``; with that turn's
        summary, archive and compactions, and the files as they are now.

        Raises NotFound, ThreadBusy while anything is at work on the thread, and Conflict: the message is no answer, or
        the states of its turn have been pruned.
        """
        graph = self._graphs.for_state((await self._threads.get(owner, thread_id)).graph_name)
        checkpoint_id = await self._end_of_turn(owner, thread_id, graph, message_id)
        copy_id = await self._copies.copy(owner, thread_id)
        try:
            await self._settle(owner, copy_id, graph, checkpoint_id, title)
            await self._threads.patch(owner, copy_id, _origin(thread_id, checkpoint_id, message_id))
        except BaseException:
            await self._threads.delete(owner, copy_id)
            raise
        return Branch(copy_id, checkpoint_id)

    async def _end_of_turn(self, owner: str, thread_id: str, graph: Graph, message_id: str) -> str:
        message, next_question = await self._turns.around(owner, thread_id, message_id)
        if not is_answer(message):
            raise Conflict(
                f"Message {message_id} is no answer; branches begin behind one", code="not_an_answer"
            )
        head = await graph.aget_state(HEAD.config(thread_id))
        if head.created_at is None:
            raise NotFound(f"Thread {thread_id} has no checkpoint")
        if next_question is None:
            return str(head.config["configurable"]["checkpoint_id"])
        line = await self._lineages.of(thread_id, head)
        return (await self._lineages.before(thread_id, graph, line, next_question["id"])).checkpoint_id

    async def _settle(
        self, owner: str, copy_id: str, graph: Graph, checkpoint_id: str, title: str | None
    ) -> None:
        head = await graph.aget_state(HEAD.config(copy_id))
        if head.config["configurable"]["checkpoint_id"] != checkpoint_id:
            await self._states.update(owner, copy_id, StateWrite(None, _COPY, Place(checkpoint_id)))
        if title and _TITLE in graph.channels:
            await self._states.update(owner, copy_id, StateWrite({_TITLE: title}))


def _origin(thread_id: str, checkpoint_id: str, message_id: str) -> dict[str, object]:
    """What DeerFlow's list of threads draws branches by."""
    return {
        "deerflow_branch": True,
        "branch_parent_thread_id": thread_id,
        "branch_parent_checkpoint_id": checkpoint_id,
        "branch_parent_message_id": message_id,
        "branch_created_at": datetime.now(UTC).isoformat(),
    }
