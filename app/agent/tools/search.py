"""Finding lines in the files of a workspace, within limits of output and of time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from app.agent.tools.folder import Entry, Folder
from app.agent.tools.matchers import Matcher, literal, regular_expression
from app.agent.tools.paths import Parts
from app.agent.tools.text import Lines, TooMuch, decode
from app.errors import WorkspaceError

_MAX_QUERY_CHARS = 1000
_MAX_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for. ``glob`` keeps the files whose name (or path, when it holds a ``/``) matches."""

    text: str
    regex: bool = False
    ignore_case: bool = False
    glob: str | None = None

    def matcher(self, limit: int, seconds: float) -> AbstractContextManager[Matcher]:
        """Raises WorkspaceError when there is nothing to look for, or too much."""
        if not 1 <= len(self.text) <= _MAX_QUERY_CHARS:
            raise WorkspaceError(
                f"The query has {len(self.text)} characters; it needs 1 to {_MAX_QUERY_CHARS}."
            )
        if self.regex:
            return regular_expression(self.text, ignore_case=self.ignore_case, limit=limit, seconds=seconds)
        return nullcontext(literal(self.text, ignore_case=self.ignore_case, limit=limit))

    def wants(self, path: str) -> bool:
        if not self.glob:
            return True
        if "/" not in self.glob:
            return fnmatchcase(path.rsplit("/", 1)[-1], self.glob)
        return fnmatchcase(path, self.glob) or fnmatchcase(path, self.glob.removeprefix("**/"))


@dataclass(slots=True)
class Search:
    """One search. It ends at ``max_lines`` lines, ``max_bytes`` of output, or after ``max_seconds``."""

    query: Query
    max_lines: int
    max_bytes: int
    max_seconds: float
    _deadline: float = field(init=False)
    _found: Lines = field(init=False)
    _skipped: int = field(init=False, default=0)

    def run(self, folder: Folder, parts: Parts, max_file_bytes: int) -> str:
        """The matching lines, and a last line in brackets on what was left out. Blocks. Raises WorkspaceError."""
        self._deadline = time.monotonic() + self.max_seconds
        self._found = Lines(self.max_lines, self.max_bytes)
        note = ""
        try:
            with self.query.matcher(self.max_lines + 1, self.max_seconds) as matches:
                for entry in self._files(folder, parts):
                    self._look_into(folder, entry, matches, max_file_bytes)
        except TooMuch:
            note = "more lines match than are shown; narrow the search"
        except TimeoutError:
            note = f"stopped after {self.max_seconds:g} seconds; narrow the search"
        skipped = (
            f"{self._skipped} files that are not text or too large were passed over" if self._skipped else ""
        )
        notes = "; ".join(filter(None, (note, skipped)))
        return self._found.text(notes) or "[no match]"

    def _files(self, folder: Folder, parts: Parts) -> Iterator[Entry]:
        size = folder.size_of(parts) if parts else None
        found = folder.walk(parts) if size is None else iter([Entry("/".join(parts), "file", size)])
        return (entry for entry in found if entry.kind == "file" and self.query.wants(entry.path))

    def _look_into(self, folder: Folder, entry: Entry, matches: Matcher, max_file_bytes: int) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError
        try:
            text = decode(folder.read(tuple(entry.path.split("/")), max_file_bytes), entry.path)
        except WorkspaceError:
            self._skipped += 1
            return
        found = matches(text)
        lines = text.split("\n") if found else []
        shown = folder.shown(entry.path)
        for index in found:
            self._found.add(f"{shown}:{index + 1}: {_shorten(lines[index])}")


def _shorten(line: str) -> str:
    text = re.sub(r"\s+", " ", line.strip())
    return text if len(text) <= _MAX_LINE_CHARS else f"{text[:_MAX_LINE_CHARS]}…"
