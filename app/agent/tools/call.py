"""A call of a tool: the thread that its run belongs to, and how it tells the model what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import ToolException

from app.errors import ThreadkeepError

Runtime = ToolRuntime[Any, Any]


def thread_id_of(runtime: Runtime, missing: str) -> str:
    """The thread of the run; the model neither sees nor chooses it. Without one, a ToolException that says that what is
    ``missing`` is not there."""
    thread_id = runtime.config.get("configurable", {}).get("thread_id")
    if not isinstance(thread_id, str):
        raise ToolException(f"There is no {missing} here: the run belongs to no thread.")
    return thread_id


@contextmanager
def told_to_the_model() -> Iterator[None]:
    """An error of ours becomes the result of the call."""
    try:
        yield
    except ThreadkeepError as error:
        raise ToolException(error.detail) from error
