"""The file tools of an agent: read, write, edit, list and search in the workspace of its thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from pydantic import Field

from app.agent.tools.call import Runtime, thread_id_of, told_to_the_model
from app.agent.tools.method import tool_of
from app.agent.tools.mounts import Mount
from app.agent.tools.reading import Files
from app.agent.tools.search import Query
from app.agent.tools.workspace import Workspace, Workspaces

FilePath = Annotated[
    str, Field(description="Path of the file, relative to the workspace, like 'notes/plan.md'.")
]
FolderPath = Annotated[
    str, Field(description="Folder to look in, relative to the workspace; '.' is all of it.")
]


def file_tools(workspaces: Workspaces, mounts: Sequence[Mount] = ()) -> list[BaseTool]:
    """Tools ``read_file``, ``write_file``, ``edit_file``, ``list_files`` and ``search_files``.

    They work in the workspace of the thread that the run belongs to (``configurable.thread_id``), which the
    model neither sees nor chooses, and read below the ``mounts`` as well. What goes wrong comes back as a tool
    result with status ``error``.
    """
    files = _Files(workspaces, mounts)
    return [
        tool_of(method)
        for method in (
            files.read_file,
            files.write_file,
            files.edit_file,
            files.list_files,
            files.search_files,
        )
    ]


class _Files:
    def __init__(self, workspaces: Workspaces, mounts: Sequence[Mount]) -> None:
        self._workspaces = workspaces
        self._mounts = tuple(mounts)

    async def read_file(
        self,
        path: FilePath,
        runtime: Runtime,
        offset: Annotated[int, Field(ge=0, description="Number of the first line to read.")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="How many lines to read.")] = None,
    ) -> str | ToolMessage:
        """Read a text file of the workspace. A long one is read in parts: the last line says how to read on."""
        with self._files(path, runtime) as files:
            text = await files.read(path, max(1, offset), limit)
        return self._stamped(text, path, runtime)

    async def write_file(self, path: FilePath, content: str, runtime: Runtime) -> str:
        """Write a text file of the workspace: create it, or replace its content. Missing folders are made."""
        with self._workspace(path, runtime) as workspace:
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
        with self._workspace(path, runtime) as workspace:
            return await workspace.edit(path, old_text, new_text, everywhere=replace_all)

    async def list_files(
        self,
        runtime: Runtime,
        path: FolderPath = ".",
        depth: Annotated[int, Field(ge=1, le=32, description="How many levels of folders to show.")] = 3,
    ) -> str:
        """List the files and folders of the workspace with their sizes."""
        with self._files(path, runtime) as files:
            return await files.list(path, depth)

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
        with self._files(path, runtime) as files:
            return await files.search(Query(query, regex, ignore_case, glob), path)

    @contextmanager
    def _files(self, path: str, runtime: Runtime) -> Iterator[Files]:
        """The files that the path leads to, for reading."""
        with told_to_the_model():
            yield self._mount(path) or self._workspaces.of(thread_id_of(runtime, "workspace"))

    @contextmanager
    def _workspace(self, path: str, runtime: Runtime) -> Iterator[Workspace]:
        """The files that the path leads to, for changing."""
        with told_to_the_model():
            if mount := self._mount(path):
                mount.refuse_to_change(path)
            yield self._workspaces.of(thread_id_of(runtime, "workspace"))

    def _mount(self, path: str) -> Mount | None:
        return next((mount for mount in self._mounts if mount.holds(path)), None)

    def _stamped(self, text: str, path: str, runtime: Runtime) -> str | ToolMessage:
        """The result with what the mount says about the file, where a model cannot write."""
        mount = self._mount(path)
        stamp = mount.stamp(path) if mount else {}
        if not stamp or runtime.tool_call_id is None:
            return text
        return ToolMessage(
            text, name="read_file", tool_call_id=runtime.tool_call_id, additional_kwargs=dict(stamp)
        )
