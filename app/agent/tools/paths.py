"""Paths as a model writes them, taken apart and checked before anything touches the disk."""

from __future__ import annotations

from app.errors import WorkspaceError

MAX_PATH_CHARS = 1024
MAX_NAME_BYTES = 255
MAX_DEPTH = 32

Parts = tuple[str, ...]


def split_path(path: str, below: Parts = ()) -> Parts:
    """The names on the way from a root to the file; none for the root itself.

    The root is the workspace, to which paths are relative (``""``, ``.`` and ``/`` are the workspace itself), or what
    ``below`` names: then the path is absolute and leads there. ``..`` is refused even where it would stay inside: a
    path says plainly what it names. Raises WorkspaceError.
    """
    if len(path) > MAX_PATH_CHARS:
        raise WorkspaceError(f"The path is too long: {len(path)} characters, at most {MAX_PATH_CHARS}.")
    shown = quote(path)
    parts = _names(path)
    if not (leads_below(path, below) if below else not parts or not path.startswith("/")):
        raise WorkspaceError(
            f"{shown} is an absolute path. Paths are relative to the workspace, like 'notes/plan.md'."
        )
    if ".." in parts:
        raise WorkspaceError(f"{shown} leads upwards. Paths stay inside the workspace and do not use '..'.")
    if len(parts) > MAX_DEPTH:
        raise WorkspaceError(f"{shown} is nested too deeply: at most {MAX_DEPTH} levels.")
    for name in parts:
        _check_name(name)
    return parts[len(below) :]


def split_file_path(path: str, below: Parts = ()) -> Parts:
    """Like ``split_path``, for a file: the root itself is none. Raises WorkspaceError."""
    parts = split_path(path, below)
    if not parts or path.endswith(("/", "/.")):
        raise WorkspaceError(f"{quote(path)} names a folder, not a file.")
    return parts


def leads_below(path: str, root: Parts) -> bool:
    """Whether an absolute path begins with the names of ``root``."""
    return path.startswith("/") and _names(path)[: len(root)] == root


def quote(path: str) -> str:
    """A path in an error text: in quotes, with nothing in it that breaks the line or cannot be encoded."""
    return "'" + printable(path[:200]) + "'"


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _names(path: str) -> Parts:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise WorkspaceError(f"The name {quote(name)} is not valid text.") from None
    if size > MAX_NAME_BYTES:
        raise WorkspaceError(f"The name {quote(name)} is too long: {size} bytes, at most {MAX_NAME_BYTES}.")
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise WorkspaceError(f"The name {quote(name)} holds a control character.")
