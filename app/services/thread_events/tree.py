"""The graphs of a run, as a tree: what ``agent.getTree`` answers with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from app.services.thread_events.frames import Frame
from app.services.thread_events.recorded import Namespace

Node = dict[str, Any]


def tree_of(frames: Iterable[Frame], graph_name: str) -> Node:
    """The root with its children below it, each with its namespace, its status and the name of its graph."""
    root = _node((), "started", graph_name)
    nodes: dict[Namespace, Node] = {(): root}
    for frame in frames:
        if frame.method != "lifecycle":
            continue
        change = orjson.loads(frame.data)
        node = nodes.get(frame.namespace)
        if node is None:
            node = nodes[frame.namespace] = _node(frame.namespace, "started", frame.namespace[-1])
            _parent(nodes, frame.namespace)["children"].append(node)
        node["status"] = change["event"]
        node["graph_name"] = change.get("graph_name") or node["graph_name"]
    return root


def _node(namespace: Namespace, status: str, graph_name: str) -> Node:
    return {"namespace": list(namespace), "status": status, "graph_name": graph_name, "children": []}


def _parent(nodes: dict[Namespace, Node], namespace: Namespace) -> Node:
    """The nearest one that is known."""
    above = namespace[:-1]
    while above not in nodes:
        above = above[:-1]
    return nodes[above]
