"""What a client puts into a run, checked and cleaned before anything is stored (rule H3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.agent.dynamic import DYNAMIC_CONTEXT_NODE
from app.errors import InvalidInput, NotFound
from app.ports import Graphs
from app.serialization import checkpoint_to_json
from app.services.runs.echoes import Echoes, without_echoes
from app.services.runs.request import RunRequest
from app.services.threads.sanitize import SUFFIXES, read_values, refuse_wide_integers, strip_flags
from app.services.threads.state import HEAD, Graph, message_ids, refuse_unknown_channels


class RunInputs:
    """Cleans the ways in of a run: ``input``, ``command.update`` and ``command.resume``."""

    def __init__(self, graphs: Graphs, echoes: Echoes) -> None:
        self._graphs = graphs
        self._echoes = echoes

    async def clean(self, thread_id: str, graph_name: str, request: RunRequest) -> RunRequest:
        """The request with message objects in the place of whatever form the client sent. Raises InvalidInput."""
        graph = self._graphs.for_state(graph_name)
        checkpoint = await _checkpoint(graph, thread_id, request)
        values = await self._values(graph, thread_id, request.input, "input")
        cleaned = replace(request, input=values, checkpoint=checkpoint)
        if request.command is None:
            return cleaned
        command = dict(request.command)
        if "resume" in command:
            refuse_wide_integers(command["resume"], "command.resume")
            command["resume"] = strip_flags(command["resume"])
        if command.get("update") is not None:
            command["update"] = await self._values(graph, thread_id, command["update"], "command.update")
        _check_goto(graph, command.get("goto"))
        if command.get("goto") is not None:
            command["goto"] = await self._destinations(graph, thread_id, command["goto"])
        return replace(cleaned, command=command)

    async def _values(self, graph: Graph, thread_id: str, values: Any, where: str) -> Any:
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise InvalidInput(f"{where}: must be an object with the keys of the state")
        refuse_unknown_channels(graph, [(where, values)])
        archived = await self._echoes.archived(graph, thread_id, values.get("messages"))
        known_ids = await self._known_ids(graph, thread_id, values)
        read = read_values(values, {*known_ids, *archived}, where)
        return {**read, "messages": without_echoes(read["messages"], archived)} if archived else read

    async def _destinations(self, graph: Graph, thread_id: str, goto: Any) -> Any:
        """A node may be sent an input of its own, in the place of the state."""
        if isinstance(goto, list):
            return [await self._destinations(graph, thread_id, item) for item in goto]
        if not isinstance(goto, Mapping):
            return goto
        given = goto.get("input")
        if not isinstance(given, Mapping):
            return {**goto, "input": strip_flags(given)}
        values = read_values(given, await self._known_ids(graph, thread_id, given), "command.goto.input")
        return {**goto, "input": values}

    async def _known_ids(self, graph: Graph, thread_id: str, values: Mapping[str, Any]) -> frozenset[str]:
        """Ids the thread has already. The state is read only where it matters: for ids that end like ours."""
        messages = values.get("messages")
        listed = messages if isinstance(messages, list) else [messages]
        ids = [message.get("id") for message in listed if isinstance(message, dict)]
        if not any(isinstance(item, str) and item.endswith(SUFFIXES) for item in ids):
            return frozenset()
        return message_ids(await graph.aget_state(HEAD.config(thread_id)))


async def _checkpoint(graph: Graph, thread_id: str, request: RunRequest) -> Mapping[str, Any] | None:
    """Where the run starts. A checkpoint that does not exist would silently start from nothing: NotFound.

    Front ends edit a question by starting anew before the checkpoint where they first saw it. A question is first seen
    under its final id when its context was added, and there the question itself stands before: it would be asked a
    second time. So a new question starts before that one.
    """
    checkpoint = request.checkpoint
    if not checkpoint:
        return checkpoint
    if checkpoint.get("checkpoint_ns"):
        await _check_nested(graph, thread_id, checkpoint)
        return checkpoint
    found = await graph.aget_state(
        {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **checkpoint}}
    )
    if found.created_at is None:
        raise NotFound(f"Thread {thread_id} has no checkpoint {checkpoint.get('checkpoint_id')}")
    before = checkpoint_to_json(found.parent_config)
    unprepared = found.next == (DYNAMIC_CONTEXT_NODE,) and isinstance(request.input, Mapping)
    if not (unprepared and before and request.input.get("messages")):
        return checkpoint
    return {**checkpoint, "checkpoint_id": before["checkpoint_id"]}


async def _check_nested(graph: Graph, thread_id: str, checkpoint: Mapping[str, Any]) -> None:
    """A checkpoint of a nested graph. One that does not exist would silently begin a history of its own there."""
    saver: Any = graph.checkpointer
    if await saver.aget_tuple({"configurable": {"thread_id": thread_id, **checkpoint}}) is None:
        raise NotFound(
            f"Thread {thread_id} has no checkpoint {checkpoint.get('checkpoint_id', '')} "
            f"in {checkpoint['checkpoint_ns']!r}"
        )


def _check_goto(graph: Graph, goto: Any) -> None:
    nodes = [name for name in graph.nodes if not name.startswith("__")]
    for item in goto if isinstance(goto, list) else [goto]:
        node = item.get("node") if isinstance(item, dict) else item
        if node is not None and node not in nodes:
            known = ", ".join(nodes)
            raise InvalidInput(f"command.goto: the graph has no node {node!r}; known: {known}")
