"""The section of the todo list, which LangChain's TodoListMiddleware keeps in the channel ``todos``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.agent.sections.lines import one_line

TODOS_HEADING = "## Todo list"
MAX_TODOS = 30
MAX_TODO_CHARACTERS = 200

_COMPLETED = "completed"
_MARKS = {"in_progress": "[~]", _COMPLETED: "[x]"}
_OPEN = "[ ]"


def todos_section(state: Mapping[str, Any]) -> str | None:
    """One line for each item. When there are more than ``MAX_TODOS``, the oldest completed ones are left out first."""
    todos = _items(state.get("todos"))
    if not todos:
        return None
    shown = _most_telling(todos)
    left_out = len(todos) - len(shown)
    note = [f"({left_out} more, not shown)"] if left_out else []
    return "\n".join([TODOS_HEADING, "", *map(_line, shown), *note])


def _items(todos: Any) -> list[Mapping[str, Any]]:
    """Clients may write this channel, so anything may stand in it; what is no item is passed over."""
    if not isinstance(todos, list):
        return []
    return [todo for todo in todos if isinstance(todo, dict) and isinstance(todo.get("content"), str)]


def _most_telling(todos: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    completed = [index for index, todo in enumerate(todos) if _is_completed(todo)]
    still_open = [index for index, todo in enumerate(todos) if not _is_completed(todo)]
    chosen = [*still_open, *reversed(completed)][:MAX_TODOS]
    return [todos[index] for index in sorted(chosen)]


def _is_completed(todo: Mapping[str, Any]) -> bool:
    return bool(todo.get("status") == _COMPLETED)


def _line(todo: Mapping[str, Any]) -> str:
    status = todo.get("status")
    mark = _MARKS.get(status, _OPEN) if isinstance(status, str) else _OPEN
    return f"- {mark} {one_line(todo['content'], MAX_TODO_CHARACTERS)}"
