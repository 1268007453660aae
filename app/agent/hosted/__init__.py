"""Graphs that somebody else wrote: loading, hosting, and what they can use of the service."""

from app.agent.hosted.graphs import HostedGraphs, StoreOf
from app.agent.hosted.middleware import compaction_middleware
from app.agent.hosted.node import compaction_node
from app.agent.hosted.sources import LoadedGraph, loaded_graphs

__all__ = [
    "HostedGraphs",
    "LoadedGraph",
    "StoreOf",
    "compaction_middleware",
    "compaction_node",
    "loaded_graphs",
]
