"""The files of a thread: one folder each, with limits. What the file tools do, without the tools."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, assert_never
from weakref import WeakValueDictionary

from app.agent.tools.folder import Entry, Folder
from app.agent.tools.paths import Parts, printable, quote, split_file_path, split_path
from app.agent.tools.search import Query, Search
from app.agent.tools.text import Lines, TooMuch, decode, excerpt, replace_text
from app.errors import InvalidInput, WorkspaceError

_THREAD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_T = TypeVar("_T")


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


class Workspace:
    """The files of one thread. Every method raises WorkspaceError with a sentence for the model."""

    def __init__(self, folder: Folder, limits: WorkspaceLimits, lock: asyncio.Lock) -> None:
        self._folder = folder
        self._limits = limits
        self._lock = lock

    async def read(self, path: str, offset: int = 1, limit: int | None = None) -> str:
        """Lines ``offset`` (the first is 1) to ``offset + limit - 1`` of a text file, as far as one call may return
        them. What is left out is said in a last line in brackets."""
        text = await asyncio.to_thread(self._text, split_file_path(path))
        return excerpt(text, offset, limit, self._limits.max_read_bytes)

    async def write(self, path: str, content: str) -> str:
        """Create or replace a file; missing folders are made."""
        parts = split_file_path(path)
        async with self._lock:
            size = await _finish(lambda: self._put(parts, content))
        return f"Wrote {printable('/'.join(parts))} ({size} bytes)."

    async def edit(self, path: str, old: str, new: str, *, everywhere: bool = False) -> str:
        """Replace a piece of a text file, which has to be there exactly once unless ``everywhere``."""
        parts = split_file_path(path)

        def change() -> int:
            text, count = replace_text(self._text(parts), old, new, everywhere=everywhere)
            self._put(parts, text)
            return count

        async with self._lock:
            count = await _finish(change)
        return f"Replaced {count} {'place' if count == 1 else 'places'} in {printable('/'.join(parts))}."

    async def list(self, path: str = ".", depth: int = 3) -> str:
        """Files with their sizes and folders below ``path``, one a line, ``depth`` levels of them."""
        return await asyncio.to_thread(self._list, split_path(path), depth)

    async def search(self, query: Query, path: str = ".") -> str:
        """Lines that match, as ``path:line: text``, in the files below ``path`` (or in that one file)."""
        limits = self._limits
        search = Search(query, limits.max_entries, limits.max_read_bytes, limits.max_search_seconds)
        return await asyncio.to_thread(search.run, self._folder, split_path(path), limits.max_file_bytes)

    async def size(self) -> int:
        """Bytes of all files."""
        return (await asyncio.to_thread(self._used))[0]

    def _text(self, parts: Parts) -> str:
        return decode(self._folder.read(parts, self._limits.max_file_bytes), "/".join(parts))

    def _put(self, parts: Parts, content: str) -> int:
        data = _encode(content)
        self._require_room(parts, len(data))
        self._folder.write(parts, data)
        return len(data)

    def _require_room(self, parts: Parts, size: int) -> None:
        limits = self._limits
        if size > limits.max_file_bytes:
            raise WorkspaceError(f"The content is too large: {size} bytes, at most {limits.max_file_bytes}.")
        used, count = self._used()
        before = self._folder.size_of(parts)
        if used - (before or 0) + size > limits.max_total_bytes:
            raise WorkspaceError(
                f"The workspace is full: {used} of {limits.max_total_bytes} bytes are used, this needs {size}."
            )
        if before is None and count + len(parts) > limits.max_files:
            raise WorkspaceError(f"The workspace is full: it holds {count} files and folders.")

    def _used(self) -> tuple[int, int]:
        sizes = [entry.size for entry in self._folder.walk()]
        return sum(sizes), len(sizes)

    def _list(self, parts: Parts, depth: int) -> str:
        lines = Lines(self._limits.max_entries, self._limits.max_read_bytes)
        note = ""
        try:
            for entry in self._folder.walk(parts, depth):
                lines.add(_shown(entry))
        except TooMuch:
            note = "there are more; name a folder or a smaller depth"
        return lines.text(note) or "[empty]"


class Workspaces:
    """The folders of all threads, below ``root``. That of a thread is made when something is written to it."""

    def __init__(self, root: Path, limits: WorkspaceLimits | None = None) -> None:
        self._root = root
        self._limits = limits or WorkspaceLimits()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, thread_id: str) -> Workspace:
        """Raises InvalidInput when the id is not 1 to 64 of letters, digits, ``_`` and ``-``."""
        folder = Folder(self._location(thread_id))
        return Workspace(folder, self._limits, self._locks.setdefault(thread_id, asyncio.Lock()))

    async def size(self, thread_id: str) -> int:
        """Bytes of all files of the thread; 0 when it has none. Raises InvalidInput like ``of``."""
        return await self.of(thread_id).size()

    async def delete(self, thread_id: str) -> None:
        """Remove the folder of the thread, if there is one. Raises InvalidInput like ``of``."""
        await asyncio.to_thread(self._remove, self._location(thread_id))

    def _location(self, thread_id: str) -> Path:
        if not _THREAD_ID.fullmatch(thread_id):
            raise InvalidInput(
                f"thread_id: {quote(thread_id)} is not 1 to 64 of letters, digits, '_' and '-'"
            )
        # On a file system that ignores case, two ids that differ only in case must not share a folder.
        lower = thread_id.lower()
        if lower == thread_id:
            return self._root / thread_id
        return self._root / f"{lower}.{hashlib.sha256(thread_id.encode()).hexdigest()[:16]}"

    def _remove(self, location: Path) -> None:
        if not os.path.lexists(location):
            return
        # Moved aside first: nobody sees half a folder, and what a crash leaves goes with the next removal.
        removed = self._root / ".removed"
        removed.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            location.rename(removed / secrets.token_hex(8))
        for left in removed.iterdir():
            _remove_tree(left)


def _remove_tree(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)


def _shown(entry: Entry) -> str:
    name = printable(entry.path)
    match entry.kind:
        case "file":
            return f"{name} ({entry.size} bytes)"
        case "folder":
            return f"{name}/"
        case "link" | "other":
            return f"{name} (not a regular file, cannot be used)"
        case _:
            assert_never(entry.kind)


async def _finish(work: Callable[[], _T]) -> _T:
    """Blocking work in a thread. A caller that is cancelled still waits for it: the lock is held until it ends."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _encode(content: str) -> bytes:
    if "\0" in content:
        raise WorkspaceError("The content holds a NUL character, so it is not text.")
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise WorkspaceError("The content is not valid text: it holds half of a surrogate pair.") from None
