"""The file tools of an agent: read, write, edit, list and search in the workspace of its thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field

from app.agent.tools.search import Query
from app.agent.tools.workspace import Workspace, Workspaces
from app.errors import ThreadkeepError

Runtime = ToolRuntime[Any, Any]
FilePath = Annotated[
    str, Field(description="Path of the file, relative to the workspace, like 'notes/plan.md'.")
]
FolderPath = Annotated[
    str, Field(description="Folder to look in, relative to the workspace; '.' is all of it.")
]


def file_tools(workspaces: Workspaces) -> list[BaseTool]:
    """Tools ``read_file``, ``write_file``, ``edit_file``, ``list_files`` and ``search_files``.

    They work in the workspace of the thread that the run belongs to (``configurable.thread_id``), which the
    model neither sees nor chooses. What goes wrong comes back as a tool result with status ``error``.
    """
    files = _Files(workspaces)
    return [
        _tool(method)
        for method in (
            files.read_file,
            files.write_file,
            files.edit_file,
            files.list_files,
            files.search_files,
        )
    ]


class _Files:
    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    async def read_file(
        self,
        path: FilePath,
        runtime: Runtime,
        offset: Annotated[int, Field(ge=0, description="Number of the first line to read.")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="How many lines to read.")] = None,
    ) -> str:
        """Read a text file of the workspace. A long one is read in parts: the last line says how to read on."""
        with self._workspace(runtime) as workspace:
            return await workspace.read(path, max(1, offset), limit)

    async def write_file(self, path: FilePath, content: str, runtime: Runtime) -> str:
        """Write a text file of the workspace: create it, or replace its content. Missing folders are made."""
        with self._workspace(runtime) as workspace:
            return await workspace.write(path, content)

    async def edit_file(
        self,
        path: FilePath,
        old_text: Annotated[str, Field(description="The exact text to replace. It must occur once.")],
        new_text: Annotated[str, Field(description="What to put in its place.")],
        runtime: Runtime,
        replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
    ) -> str:
        """Replace a piece of text in a file of the workspace and leave the rest as it is."""
        with self._workspace(runtime) as workspace:
            return await workspace.edit(path, old_text, new_text, everywhere=replace_all)

    async def list_files(
        self,
        runtime: Runtime,
        path: FolderPath = ".",
        depth: Annotated[int, Field(ge=1, le=32, description="How many levels of folders to show.")] = 3,
    ) -> str:
        """List the files and folders of the workspace with their sizes."""
        with self._workspace(runtime) as workspace:
            return await workspace.list(path, depth)

    async def search_files(
        self,
        query: Annotated[str, Field(description="Text to find; a regular expression when `regex` is true.")],
        runtime: Runtime,
        path: FolderPath = ".",
        glob: Annotated[
            str | None, Field(max_length=200, description="Only files like this: '*.py'.")
        ] = None,
        regex: bool = False,
        ignore_case: bool = False,
    ) -> str:
        """Find lines in the files of the workspace. Each line that matches is shown as `path:line: text`."""
        with self._workspace(runtime) as workspace:
            return await workspace.search(Query(query, regex, ignore_case, glob), path)

    @contextmanager
    def _workspace(self, runtime: Runtime) -> Iterator[Workspace]:
        thread_id = runtime.config.get("configurable", {}).get("thread_id")
        if not isinstance(thread_id, str):
            raise ToolException("There is no workspace here: the run belongs to no thread.")
        try:
            yield self._workspaces.of(thread_id)
        except ThreadkeepError as error:
            raise ToolException(error.detail) from error


def _tool(method: Callable[..., Awaitable[str]]) -> BaseTool:
    tool = StructuredTool.from_function(coroutine=method)
    tool.handle_tool_error = True
    return tool
