"""Agents: how they are built, their state, tools and middleware.

For graphs of your own: ``compaction_middleware`` gives an agent of ``create_agent`` the compaction of the service,
``compaction_node`` any other graph.
"""

from app.agent.hosted.middleware import compaction_middleware
from app.agent.hosted.node import compaction_node

__all__ = ["compaction_middleware", "compaction_node"]
