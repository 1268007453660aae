"""Folders of the operator that every workspace shows at an absolute path, for reading only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.agent.tools.folder import Folder
from app.agent.tools.paths import leads_below, quote
from app.agent.tools.reading import Files, WorkspaceLimits
from app.errors import WorkspaceError

Stamp = Callable[[str], Mapping[str, Any]]


class Mount(Files):
    """The folder at ``location``, which agents see at the absolute path ``at``. What begins with a dot they do not see:
    it may be a clone, with addresses and keys in its ``.git``.

    ``stamp`` is given the path of a file that was read and answers with metadata for the tool's result, so that the
    service knows later what was read without trusting its text.
    """

    def __init__(self, at: str, location: Path, limits: WorkspaceLimits, stamp: Stamp) -> None:
        parts = tuple(at.strip("/").split("/"))
        super().__init__(Folder(location, f"{at}/", hidden=False), limits, parts)
        self.stamp = stamp
        self._at = at
        self._parts = parts

    def holds(self, path: str) -> bool:
        """Whether the path leads here, as far as its first names say."""
        return leads_below(path, self._parts)

    def refuse_to_change(self, path: str) -> None:
        """Raises WorkspaceError."""
        raise WorkspaceError(
            f"{quote(path)} is read-only: what is below {self._at} belongs to whoever runs this service. "
            "Write into the workspace instead, like 'notes/plan.md'."
        )
