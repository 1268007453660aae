"""Tools of the agent: files in a folder of the thread, its earlier messages, a todo list, questions to the person."""

from app.agent.tools.clarification import clarification_tool
from app.agent.tools.files import file_tools
from app.agent.tools.history import history_tools
from app.agent.tools.mounts import Mount
from app.agent.tools.todos import todos_tool
from app.agent.tools.workspace import WorkspaceLimits, Workspaces

__all__ = [
    "Mount",
    "WorkspaceLimits",
    "Workspaces",
    "clarification_tool",
    "file_tools",
    "history_tools",
    "todos_tool",
]
