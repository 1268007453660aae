"""Text files as a model reads and edits them."""

from __future__ import annotations

from app.agent.tools.paths import quote
from app.errors import WorkspaceError


def decode(data: bytes, path: str) -> str:
    """Raises WorkspaceError when the data is not UTF-8 text. A byte order mark is taken off."""
    if b"\0" not in data:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    raise WorkspaceError(
        f"{quote(path)} is not UTF-8 text ({len(data)} bytes), so it cannot be shown or edited."
    )


def excerpt(text: str, offset: int, limit: int | None, max_bytes: int) -> str:
    """Some lines of a text, as many whole ones as fit, and a last line in brackets that says how to read on.

    ``offset`` is the number of the first line, from 1. Raises WorkspaceError when the text ends before it.
    """
    if not text:
        return "[the file is empty]"
    lines = text.split("\n")
    total = len(lines) - 1 if not lines[-1] else len(lines)
    if offset > total:
        raise WorkspaceError(f"The file has only {total} lines; line {offset} is behind its end.")
    wanted = lines[offset - 1 : total if limit is None else min(total, offset - 1 + limit)]
    shown = _fitting(wanted, max_bytes)
    if not shown:
        head = wanted[0].encode()[:max_bytes].decode(errors="ignore")
        note = f"[line {offset} of {total} is cut: {len(head)} of its {len(wanted[0])} characters are shown"
        return f"{head}\n{note}{_read_on(offset, total)}]"
    last = offset + len(shown) - 1
    if offset == 1 and last == total:
        return text
    return "\n".join(shown) + f"\n[lines {offset} to {last} of {total}{_read_on(last, total)}]"


def _fitting(lines: list[str], max_bytes: int) -> list[str]:
    room = max_bytes
    for count, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < -1:
            return lines[:count]
    return lines


def _read_on(last: int, total: int) -> str:
    return f"; read on with offset={last + 1}" if last < total else ""


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """Text with ``old`` replaced, and how often. Raises WorkspaceError when it is not there, or not once only.

    A file with Windows line ends is matched, and kept, as such.
    """
    if not old:
        raise WorkspaceError("The text to replace is empty.")
    if old == new:
        raise WorkspaceError("The old and the new text are the same.")
    if "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise WorkspaceError(
            "The text to replace is not in the file. It has to match exactly, spaces included."
        )
    if count > 1 and not everywhere:
        raise WorkspaceError(
            f"The text to replace is in the file {count} times. Give more of what is around it, or replace all."
        )
    return text.replace(old, new), count


class Lines:
    """Output line by line, up to a number of lines and of bytes."""

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._lines: list[str] = []
        self._lines_left = max_lines
        self._bytes_left = max_bytes

    def add(self, line: str) -> None:
        """Raises TooMuch when there is no room for it."""
        self._lines_left -= 1
        self._bytes_left -= len(line.encode()) + 1
        if self._lines_left < 0 or self._bytes_left < 0:
            raise TooMuch
        self._lines.append(line)

    def text(self, note: str) -> str:
        """All lines, and the note in brackets if there is one."""
        return "\n".join([*self._lines, f"[{note}]"] if note else self._lines)


class TooMuch(Exception):
    """As many lines as may be shown are there."""
