"""Tools of MCP servers: which there are now, under which names, and how they are called.

The protocol's own packages take half a second to import, so only ``server`` imports them, and only when a server is
configured.
"""

from app.agent.mcp.catalog import McpCatalog
from app.agent.mcp.live import LiveTools

__all__ = ["LiveTools", "McpCatalog"]
