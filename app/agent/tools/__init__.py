"""Tools of the agent: files in a folder that each thread has for itself."""

from app.agent.tools.files import file_tools
from app.agent.tools.mounts import Mount
from app.agent.tools.workspace import WorkspaceLimits, Workspaces

__all__ = ["Mount", "WorkspaceLimits", "Workspaces", "file_tools"]
