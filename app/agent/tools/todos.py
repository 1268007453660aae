"""The todo list of an agent, as LangChain's TodoListMiddleware keeps it in the channel ``todos``."""

from __future__ import annotations

from functools import cache

from langchain.agents.middleware import TodoListMiddleware
from langchain_core.tools import BaseTool

TODOS_TOOL = "write_todos"

# LangChain's own text is a thousand tokens of every request.
_DESCRIPTION = """\
Keep a todo list for work of three or more steps, so that none is forgotten; not for less. Each call replaces the \
whole list: send all items, also those that are done. Mark an item in_progress before you begin it and completed as \
soon as it is completely done, one at a time; add what turns up, remove what is no longer needed. One call at a time. \
The list is no answer: what the person asked for stands in your last message."""


@cache
def todos_tool() -> BaseTool:
    """``write_todos``: the model's own view of what is to be done; people see it in the thread's state."""
    tool: BaseTool = TodoListMiddleware(tool_description=_DESCRIPTION).tools[0]
    return tool
