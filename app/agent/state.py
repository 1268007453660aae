"""The channels of a thread and their reducers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents import AgentState
from langchain.agents.middleware.todo import Todo
from langchain.agents.middleware.types import OmitFromInput
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer

from app.agent.channels.delegations import Delegation, merge_delegations
from app.agent.channels.skills import SkillRef, merge_skills
from app.agent.summary_message import marker_in
from app.compaction.types import Compaction


class CompactionMarker(TypedDict):
    """The last compaction of the thread: its id, and the id of the newest message it saw (rule B3).

    ``run_id`` is the run that it was part of, ``earlier`` are ids of compactions before it in the same run: a run that
    writes its state only at the end has one checkpoint for all of them. After an undo nothing is compacted
    automatically until the request has ``hold_tokens``.
    """

    compaction_id: str
    after_message_id: str | None
    run_id: str | None
    earlier: list[str]
    hold_tokens: NotRequired[int]


class CompactionState(AgentState[Any]):
    """What a compaction writes: all that a graph needs whose threads are to be compacted."""

    summary_text: NotRequired[Annotated[str | None, OmitFromInput]]
    compaction: NotRequired[Annotated[CompactionMarker | None, OmitFromInput]]


class FullState(CompactionState):
    """A thread whose checkpoints hold the whole message list (``checkpoint_mode: full``)."""

    delegations: NotRequired[Annotated[list[Delegation], OmitFromInput, merge_delegations]]
    skill_context: NotRequired[Annotated[list[SkillRef], OmitFromInput, merge_skills]]
    todos: NotRequired[Annotated[list[Todo], OmitFromInput]]
    title: NotRequired[str | None]


class DeltaState(FullState):
    """A thread whose checkpoints hold what each step added (``checkpoint_mode: delta``)."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


STATE_SCHEMAS: Mapping[str, type[FullState]] = {"delta": DeltaState, "full": FullState}


def last_compaction_id(state: Mapping[str, Any]) -> str | None:
    """The compaction, undo or redo whose marker stands in the state; None for a thread that never had any."""
    marker = marker_in(state)
    return marker["compaction_id"] if marker else None


def rewritten(
    messages: Sequence[BaseMessage], summary: str | None, marker: CompactionMarker
) -> dict[str, Any]:
    """The state write that puts these messages and this summary in the place of all others."""
    return {
        "messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages],
        "summary_text": summary,
        "compaction": marker,
    }


def compaction_update(
    compaction: Compaction,
    compaction_id: str,
    run_id: str | None = None,
    last: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The one state write of a compaction (rule F1): all messages out, the kept ones in, the new summary live.

    ``last`` is the marker that stands in the state, None for a thread that was never compacted.
    """
    seen = (*compaction.removed, *compaction.dropped, *compaction.kept)
    newest = compaction.kept[-1] if compaction.kept else seen[-1]
    of_this_run = last is not None and run_id is not None and last.get("run_id") == run_id
    earlier = [*last["earlier"], last["compaction_id"]] if last and of_this_run else []
    marker = CompactionMarker(
        compaction_id=compaction_id, after_message_id=newest.id, run_id=run_id, earlier=earlier
    )
    return rewritten(compaction.kept, compaction.summary, marker)
