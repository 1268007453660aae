"""Where in a thread's history a message was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langgraph.types import StateSnapshot

from app.compaction.roles import USER_SUFFIX
from app.errors import Conflict
from app.persistence.lineage import Ancestor, LineageStore
from app.services.threads.state import Graph, Place
from app.services.threads.timeline import TimelineService

_INPUT = "input"


@dataclass(frozen=True, slots=True)
class Base:
    """The checkpoint before a message, and its state."""

    checkpoint_id: str
    state: StateSnapshot


def stem_of(message_id: str) -> str:
    """The id under which a question was sent: the dynamic context moves questions behind an id with a suffix."""
    return message_id.removesuffix(USER_SUFFIX)


class Lineages:
    """Looks for checkpoints on the branch of a state, also behind compactions."""

    def __init__(self, store: LineageStore, timelines: TimelineService) -> None:
        self._store = store
        self._timelines = timelines

    async def of(self, thread_id: str, head: StateSnapshot) -> Sequence[Ancestor]:
        """The checkpoint of ``head`` and its ancestors, the newest first."""
        return await self._store.of(thread_id, head.config["configurable"]["checkpoint_id"])

    async def before(self, thread_id: str, graph: Graph, line: Sequence[Ancestor], question_id: str) -> Base:
        """The newest checkpoint of ``line`` in whose conversation the question, which stands in that of the first, was
        not said yet: the state that it was asked in.

        A conversation only grows along a line, compactions included, so that halving finds the place with a few reads
        of a state. Raises Conflict (``checkpoint_gone``) when what was before the question has been pruned.
        """
        forms = {stem_of(question_id), f"{stem_of(question_id)}{USER_SUFFIX}"}
        said, unsaid = 0, len(line)
        while unsaid - said > 1:
            middle = (said + unsaid) // 2
            if await self._says(thread_id, graph, line[middle], forms):
                said = middle
            else:
                unsaid = middle
        if unsaid == len(line):
            raise Conflict(f"The state before message {question_id} has been pruned", code="checkpoint_gone")
        # A run's input waits in a checkpoint of its own, which the state that the run began with comes before.
        waiting = line[unsaid].source == _INPUT and unsaid + 1 < len(line)
        found = line[unsaid + waiting].checkpoint_id
        return Base(found, await graph.aget_state(Place(found).config(thread_id)))

    async def _says(self, thread_id: str, graph: Graph, at: Ancestor, forms: set[str]) -> bool:
        state = await graph.aget_state(Place(at.checkpoint_id).config(thread_id))
        values = state.values if isinstance(state.values, Mapping) else {}
        whole = await self._timelines.conversation(thread_id, values)
        return any(place.message_id in forms for place in whole.places)
