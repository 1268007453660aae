"""One folder on disk that no path leads out of.

Every way is walked name by name from an open folder, never following a link, so a link put in between a check
and its use changes nothing. Files are opened without waiting and used only if they are regular ones. All calls
block.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from app.agent.tools.paths import MAX_DEPTH, Parts, printable, quote
from app.errors import WorkspaceError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = 0o644
_NEW_FOLDER = 0o755
_MAX_NAMES = 20_000  # of one folder; more are not looked at

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the folder. ``path`` is relative to it, ``size`` in bytes (0 unless a file), ``changed`` when and
    which it is, for comparing only."""

    path: str
    kind: EntryKind
    size: int
    changed: tuple[int, int] = (0, 0)


class Folder:
    """The folder at ``location``, which need not exist before something is written. Raises WorkspaceError.

    ``shown_below`` is where people see it (``/mnt/skills/``); paths in a workspace are shown as they are. Without
    ``hidden`` names that begin with a dot do not exist.
    """

    def __init__(self, location: Path, shown_below: str = "", *, hidden: bool = True) -> None:
        self._location = location
        self._shown_below = shown_below
        self._hidden = hidden

    def shown(self, path: str) -> str:
        """A path of this folder as the model may use it again."""
        return printable(f"{self._shown_below}{path}")

    def read(self, parts: Parts, max_bytes: int) -> bytes:
        """The content of a regular file of at most so many bytes."""
        with self._refusals(parts), self._open(parts[:-1]) as folder:
            handle = os.open(parts[-1], _READ, dir_fd=folder)
            try:
                status = os.fstat(handle)
                _require_regular(status.st_mode, self._quoted(parts))
                if status.st_size > max_bytes:
                    raise WorkspaceError(
                        f"{self._quoted(parts)} is too large: {status.st_size} bytes, at most {max_bytes}."
                    )
                with os.fdopen(handle, "rb", closefd=False) as file:
                    return file.read(max_bytes)
            finally:
                os.close(handle)

    def write(self, parts: Parts, data: bytes) -> None:
        """Create or replace a file at once: readers see the old content or the new. Parents are created."""
        with self._refusals(parts), self._open(parts[:-1], create=True) as folder:
            mode = _mode_of_old(folder, parts[-1], self._quoted(parts))
            temporary = f".{secrets.token_hex(8)}.tmp"
            handle = os.open(temporary, _CREATE, mode, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                os.replace(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def size_of(self, parts: Parts) -> int | None:
        """Bytes of the regular file of that name, None when there is none."""
        try:
            with self._refusals(parts), self._open(parts[:-1]) as folder:
                status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except _Missing:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def walk(self, parts: Parts = (), depth: int = MAX_DEPTH) -> Iterator[Entry]:
        """What is in a folder and in those below it, ``depth`` levels, by name, each folder before its content.

        A folder that vanishes meanwhile is passed over; one that nothing was ever written to is empty.
        """
        try:
            with self._refusals(parts), self._open(parts) as folder:
                yield from _walk(folder, "".join(f"{name}/" for name in parts), depth, self._hidden)
        except _Missing:
            if parts:
                raise

    @contextmanager
    def _open(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        if create:
            self._location.mkdir(mode=0o700, parents=True, exist_ok=True)
        current = os.open(self._location, _FOLDER)
        try:
            for name in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, _NEW_FOLDER, dir_fd=current)
                inner = os.open(name, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)

    @contextmanager
    def _refusals(self, parts: Parts) -> Iterator[None]:
        """What the system says, in words that name the path as the model wrote it and nothing of the host."""
        shown = self._quoted(parts)
        try:
            if not self._hidden and any(name.startswith(".") for name in parts):
                raise FileNotFoundError
            yield
        except FileNotFoundError:
            where = "" if self._shown_below else " in the workspace"
            raise _Missing(f"There is no {shown}{where}.") from None
        except OSError as error:
            raise WorkspaceError(_SENTENCES.get(error.errno or 0, _OTHERWISE).format(shown)) from None

    def _quoted(self, parts: Parts) -> str:
        return quote(self._shown_below + "/".join(parts) or ".")


class _Missing(WorkspaceError):
    """There is nothing of that name."""


def _walk(folder: int, prefix: str, depth: int, hidden: bool) -> Iterator[Entry]:
    with os.scandir(folder) as names:
        found = sorted(islice(names, _MAX_NAMES), key=lambda item: item.name)
    for item in found:
        entry = _entry(item, prefix) if hidden or not item.name.startswith(".") else None
        if entry is None:
            continue
        yield entry
        if entry.kind == "folder" and depth > 1:
            # Gone, closed to us or replaced by a link since it was listed: the rest is still worth showing.
            with suppress(OSError):
                yield from _walk_inner(folder, item.name, entry.path, depth - 1, hidden)


def _walk_inner(folder: int, name: str, path: str, depth: int, hidden: bool) -> Iterator[Entry]:
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield from _walk(inner, f"{path}/", depth, hidden)
    finally:
        os.close(inner)


def _entry(item: os.DirEntry[str], prefix: str) -> Entry | None:
    try:
        status = item.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    path = prefix + item.name
    if stat.S_ISREG(status.st_mode):
        return Entry(path, "file", status.st_size, (status.st_ctime_ns, status.st_ino))
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, "folder", 0)
    return Entry(path, "link" if stat.S_ISLNK(status.st_mode) else "other", 0)


def _mode_of_old(folder: int, name: str, shown: str) -> int:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _NEW_FILE
    _require_regular(status.st_mode, shown)
    return status.st_mode & 0o777


def _require_regular(mode: int, shown: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise WorkspaceError(f"{shown} is a folder, not a file.")
    if stat.S_ISLNK(mode):
        raise WorkspaceError(f"{shown} is a link, and links are not followed.")
    raise WorkspaceError(f"{shown} is not a regular file.")


_OTHERWISE = "{} cannot be used."
_SENTENCES = {
    errno.ELOOP: "{} is a link, and links are not followed.",
    errno.ENOTDIR: "{} leads through something that is not a folder; links are not followed.",
    errno.EISDIR: "{} is a folder, not a file.",
    errno.EEXIST: "{} exists already and is not a file.",
    errno.EACCES: "{} may not be used: permission denied.",
    errno.EPERM: "{} may not be used: permission denied.",
    errno.ENXIO: "{} is not a regular file.",
    errno.ENAMETOOLONG: "{} is too long a name.",
    errno.ENOSPC: "{} cannot be written: the disk is full.",
    errno.EDQUOT: "{} cannot be written: the disk quota is used up.",
    errno.EROFS: "{} cannot be written: the disk is read-only.",
}
