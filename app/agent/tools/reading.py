"""Reading, listing and searching the files of one folder, within limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import assert_never

from app.agent.tools.folder import Entry, Folder
from app.agent.tools.paths import Parts, split_file_path, split_path
from app.agent.tools.search import Query, Search
from app.agent.tools.text import Lines, TooMuch, decode, excerpt


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """Sizes in bytes. ``max_read_bytes`` is what one call returns as text at most, ``max_entries`` how many
    lines a listing or a search returns, ``max_files`` how many files and folders a workspace may hold,
    ``max_search_seconds`` how long one search may take."""

    max_file_bytes: int = 10 * 1024 * 1024
    max_read_bytes: int = 32 * 1024
    max_total_bytes: int = 512 * 1024 * 1024
    max_entries: int = 500
    max_files: int = 10_000
    max_search_seconds: float = 5.0


class Files:
    """The files of a folder. Every method raises WorkspaceError with a sentence for the model.

    ``below`` is the absolute path that all paths have to begin with; none: they are relative to the folder.
    """

    def __init__(self, folder: Folder, limits: WorkspaceLimits, below: Parts = ()) -> None:
        self._folder = folder
        self._limits = limits
        self._below = below

    async def read(self, path: str, offset: int = 1, limit: int | None = None) -> str:
        """Lines ``offset`` (the first is 1) to ``offset + limit - 1`` of a text file, as far as one call may return
        them. What is left out is said in a last line in brackets."""
        text = await asyncio.to_thread(self._text, split_file_path(path, self._below))
        return excerpt(text, offset, limit, self._limits.max_read_bytes)

    async def list(self, path: str = ".", depth: int = 3) -> str:
        """Files with their sizes and folders below ``path``, one a line, ``depth`` levels of them."""
        return await asyncio.to_thread(self._list, split_path(path, self._below), depth)

    async def search(self, query: Query, path: str = ".") -> str:
        """Lines that match, as ``path:line: text``, in the files below ``path`` (or in that one file)."""
        limits = self._limits
        search = Search(query, limits.max_entries, limits.max_read_bytes, limits.max_search_seconds)
        parts = split_path(path, self._below)
        return await asyncio.to_thread(search.run, self._folder, parts, limits.max_file_bytes)

    def _text(self, parts: Parts) -> str:
        shown = self._folder.shown("/".join(parts))
        return decode(self._folder.read(parts, self._limits.max_file_bytes), shown)

    def _list(self, parts: Parts, depth: int) -> str:
        lines = Lines(self._limits.max_entries, self._limits.max_read_bytes)
        note = ""
        try:
            for entry in self._folder.walk(parts, depth):
                lines.add(_line(entry, self._folder.shown(entry.path)))
        except TooMuch:
            note = "there are more; name a folder or a smaller depth"
        return lines.text(note) or "[empty]"


def _line(entry: Entry, shown: str) -> str:
    match entry.kind:
        case "file":
            return f"{shown} ({entry.size} bytes)"
        case "folder":
            return f"{shown}/"
        case "link" | "other":
            return f"{shown} (not a regular file, cannot be used)"
        case _:
            assert_never(entry.kind)
