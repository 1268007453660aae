"""Paths of skills as agents see them."""

from __future__ import annotations


def plain_path(path: str) -> str | None:
    """An absolute path without superfluous slashes and dots; None for a relative one and for one with ``..``."""
    parts = [name for name in path.split("/") if name not in ("", ".")]
    if not path.startswith("/") or ".." in parts:
        return None
    return "/" + "/".join(parts)
