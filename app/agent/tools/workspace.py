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
from functools import partial
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import TypeVar
from weakref import WeakValueDictionary

from app.agent.tools.folder import Folder
from app.agent.tools.paths import Parts, printable, quote, split_file_path
from app.agent.tools.reading import Files, WorkspaceLimits
from app.agent.tools.text import replace_text
from app.errors import InvalidInput, WorkspaceError

_THREAD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_T = TypeVar("_T")


class Workspace(Files):
    """The files of one thread. Every method raises WorkspaceError with a sentence for the model."""

    def __init__(self, folder: Folder, limits: WorkspaceLimits, lock: asyncio.Lock) -> None:
        super().__init__(folder, limits)
        self._lock = lock

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

    async def size(self) -> int:
        """Bytes of all files."""
        return (await asyncio.to_thread(self._used))[0]

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

    async def copy(self, thread_id: str, copy_id: str) -> None:
        """Give the thread ``copy_id``, which has none, the same files. Nobody may write meanwhile. Raises InvalidInput
        like ``of``."""
        await _finish(partial(_copy_tree, self._location(thread_id), self._location(copy_id)))

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


def _copy_tree(source: Path, target: Path) -> None:
    # Links are copied as links and never followed; a pipe would be waited for.
    with suppress(FileNotFoundError):
        shutil.copytree(source, target, symlinks=True, ignore=_neither_file_nor_folder)


def _neither_file_nor_folder(folder: str, names: list[str]) -> list[str]:
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [name for name, mode in modes.items() if not (S_ISREG(mode) or S_ISDIR(mode) or S_ISLNK(mode))]


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
