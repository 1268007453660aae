"""Messages that are too long, wherever they stand in what a client sends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from app.errors import PayloadTooLarge
from app.services.problems import path_text

_MESSAGES = "messages"
_OVERWRITE = "__overwrite__"

Path = tuple[str | int, ...]


def refuse_long_messages(value: Any, limit: int) -> None:
    """Raises PayloadTooLarge, with the path, when one message has more than ``limit`` bytes as JSON.

    A message is what a list under the key ``messages`` holds, in an object or in a pair (``command.update``).
    """
    for path, message in _messages(value):
        if len(orjson.dumps(message)) > limit:
            raise PayloadTooLarge(
                f"{path_text(path)}: a message larger than {limit} bytes", code="message_too_large"
            )


def _messages(value: Any) -> Iterable[tuple[Path, Any]]:
    """Not recursive on purpose: what clients send may be nested deeply."""
    todo: list[tuple[Path, Any]] = [(("body",), value)]
    while todo:
        path, item = todo.pop()
        entries: Iterable[tuple[str | int, Any]]
        match item:
            case dict():
                entries = item.items()
            case [str() as name, inner]:
                entries = [(name if name == _MESSAGES else 1, inner)]
            case list():
                entries = enumerate(item)
            case _:
                continue
        for key, inner in entries:
            if key == _MESSAGES:
                yield from _listed((*path, key), inner)
            todo.append(((*path, key), inner))


def _listed(path: Path, several: Any) -> Iterable[tuple[Path, Any]]:
    match several:
        case {"__overwrite__": inner}:
            yield from _listed((*path, _OVERWRITE), inner)
        case list():
            yield from (((*path, index), message) for index, message in enumerate(several))
        case _:
            yield path, several
