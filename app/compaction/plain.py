"""Text that everything behind us can take."""

from __future__ import annotations


def plain(text: str) -> str:
    """``text`` without NUL characters, which databases refuse, and with ``?`` for half a surrogate pair, which no
    encoding has. Models and servers send both now and then."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
