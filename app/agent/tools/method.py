"""Tools that are methods: of an object that has what they need and that the model does not see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, create_schema_from_function
from pydantic import BaseModel

_NOT_OF_THE_MODEL = ("self", "run_manager", "callbacks")


def tool_of(method: Callable[..., Awaitable[str | ToolMessage]]) -> BaseTool:
    """A tool with the name, the docstring and the arguments of a bound method. A ToolException is told to the model."""
    tool = StructuredTool.from_function(coroutine=method, args_schema=_arguments(method.__func__))  # type: ignore[attr-defined]
    tool.handle_tool_error = True
    return tool


@cache
def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    # They are the same for every object of the class, and each takes ten milliseconds to work out.
    return create_schema_from_function(function.__name__, function, filter_args=_NOT_OF_THE_MODEL)  # type: ignore[return-value]
