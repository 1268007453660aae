"""What a front end needs to ask the newest question of a thread again, as it was or with other words.

A replay is a run from the checkpoint before the question. The turn that it replaces stays in the history, on a branch
that the thread is no longer on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.types import StateSnapshot

from app.errors import Conflict, InvalidInput, NotFound, ThreadBusy
from app.persistence.lineage import Ancestor
from app.persistence.runs import Run, RunStore
from app.persistence.threads import Thread, ThreadStore
from app.ports import Graphs
from app.services.threads.lineage import Base, Lineages, stem_of
from app.services.threads.sanitize import FLAGS
from app.services.threads.state import HEAD, Graph
from app.services.threads.turns import Message, Turn, Turns, is_answer, is_final, text_of

_TITLE = "title"
_GROUP = "edit_version_group_id"
# Runs after which a question may stand without the answer that was streamed to the person.
_CUT_OFF = frozenset({"interrupted", "error", "timeout"})


@dataclass(frozen=True, slots=True)
class _Scene:
    """A thread at rest: its newest state and turn, and the run that ended it (None: not a run of this thread)."""

    thread: Thread
    graph: Graph
    head: StateSnapshot
    line: Sequence[Ancestor]
    turn: Turn
    run: Run | None

    @property
    def title(self) -> str | None:
        return _title_of(self.head) if _TITLE in self.graph.channels else None


class Replays:
    """The use cases behind ``/runs/regenerate/prepare`` and ``/runs/edit-regenerate/prepare``."""

    def __init__(
        self, threads: ThreadStore, runs: RunStore, graphs: Graphs, lineages: Lineages, turns: Turns
    ) -> None:
        self._threads = threads
        self._runs = runs
        self._graphs = graphs
        self._lineages = lineages
        self._turns = turns

    async def regenerate(self, owner: str, thread_id: str, message_id: str) -> dict[str, Any]:
        """Input, checkpoint and metadata of a run that answers the newest question anew. ``message_id`` is an answer to
        it; one that was cut off need not be in the thread.

        Raises NotFound, ThreadBusy, and Conflict for any message but an answer of the newest turn.
        """
        scene = await self._scene(owner, thread_id)
        await self._check_answer(owner, scene, message_id)
        base = await self._base(scene)
        # The title is not what is asked for again: it stays, however it came about since.
        given = {"messages": [_asked_again(scene.turn.question)], **_titled(scene.title)}
        return _replay(scene, base, given, message_id)

    async def edit(self, owner: str, thread_id: str, question_id: str, text: str) -> dict[str, Any]:
        """The same for the newest question in other words; its images stay.

        Raises InvalidInput for a text without words, NotFound, ThreadBusy, and Conflict unless the question is the
        newest one, differs, and was answered by a run that succeeded.
        """
        words = text.strip()
        if not words:
            raise InvalidInput("body.replacement_text: must not be empty")
        scene = await self._scene(owner, thread_id)
        _check_editable(scene, question_id, words)
        base = await self._base(scene)
        new_id = str(uuid.uuid4())
        question = scene.turn.question
        # A thread that had no title before gets one that suits the new question.
        title = scene.title if _title_of(base.state) else None
        given = {"messages": [_asked_anew(question, new_id, words)], **_titled(title)}
        replay = _replay(scene, base, given, scene.turn.answers[-1]["id"])
        group = scene.run.metadata.get(_GROUP) if scene.run else None
        replay["metadata"] |= {
            "replay_kind": "edit",
            "edit_from_message_id": question["id"],
            "edit_message_id": new_id,
            _GROUP: group or question["id"],
        }
        return {**replay, "replacement_human_message_id": new_id, "source_message_ids": scene.turn.ids}

    async def _scene(self, owner: str, thread_id: str) -> _Scene:
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        if thread.status == "busy":
            raise ThreadBusy(f"Thread {thread_id} has a run that is pending or running")
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state(HEAD.config(thread_id))
        turn = await self._turns.newest(owner, thread_id)
        if turn is None:
            raise NotFound(f"Nobody has asked anything on thread {thread_id}")
        line = await self._lineages.of(thread_id, head)
        run_id = next((at.run_id for at in line if at.run_id), None)
        run = await self._runs.get(thread_id, run_id) if run_id else None
        return _Scene(thread, graph, head, line, turn, run)

    async def _check_answer(self, owner: str, scene: _Scene, message_id: str) -> None:
        newest = next((message for message in scene.turn.replies if message["id"] == message_id), None)
        if newest is not None and is_answer(newest):
            return
        try:
            await self._turns.around(owner, scene.thread.thread_id, message_id)
        except NotFound:
            if scene.run and scene.run.status in _CUT_OFF:
                return
            raise
        raise Conflict(
            f"Message {message_id} is not an answer of the newest turn, the only one that can be asked for again",
            code="not_latest_turn",
        )

    async def _base(self, scene: _Scene) -> Base:
        question_id = scene.turn.question["id"]
        return await self._lineages.before(scene.thread.thread_id, scene.graph, scene.line, question_id)


def _check_editable(scene: _Scene, question_id: str, words: str) -> None:
    question = scene.turn.question
    if stem_of(question["id"]) != stem_of(question_id):
        raise Conflict(
            f"Message {question_id} is not the newest question, the only one that can be edited",
            code="not_latest_turn",
        )
    answered = bool(scene.turn.answers) and is_final(scene.turn.answers[-1])
    if not answered or (scene.run and scene.run.status != "success"):
        raise Conflict("Only a question that was answered can be edited", code="turn_not_completed")
    if text_of(question).strip() == words:
        raise Conflict("The question is the same as before", code="message_unchanged")


def _replay(scene: _Scene, base: Base, given: dict[str, Any], answer_id: str) -> dict[str, Any]:
    run_id = scene.run.run_id if scene.run else ""
    return {
        "input": given,
        "checkpoint": {"checkpoint_ns": "", "checkpoint_id": base.checkpoint_id, "checkpoint_map": None},
        "metadata": {
            "regenerate_from_message_id": answer_id,
            "regenerate_from_run_id": run_id,
            "regenerate_checkpoint_id": base.checkpoint_id,
        },
        "target_run_id": run_id,
    }


def _asked_again(question: Message) -> dict[str, Any]:
    extras = question.get("additional_kwargs") or {}
    return {
        "type": "human",
        "id": stem_of(question["id"]),
        "content": question["content"],
        "additional_kwargs": {name: value for name, value in extras.items() if name not in FLAGS},
        **({"name": question["name"]} if question.get("name") else {}),
    }


def _asked_anew(question: Message, new_id: str, words: str) -> dict[str, Any]:
    content = question["content"]
    blocks = [] if isinstance(content, str) else content
    kept = [block for block in blocks if isinstance(block, Mapping) and block.get("type") != "text"]
    text = {"type": "text", "text": words}
    return {**_asked_again(question), "id": new_id, "content": [text, *kept]}


def _title_of(state: StateSnapshot) -> str | None:
    title = state.values.get(_TITLE) if isinstance(state.values, Mapping) else None
    return title if isinstance(title, str) else None


def _titled(title: str | None) -> dict[str, str]:
    return {_TITLE: title} if title else {}
