"""Ids that clients may choose: which are allowed, in which form they are kept."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

from langchain_core.utils.uuid import uuid7

from app.errors import InvalidInput
from app.serialization import show

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TIMED = re.compile(
    r"(?<![0-9a-f])([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-f])"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_thread_id(value: str, *, strict: bool, where: str = "thread_id") -> str:
    """The thread id in the form it is kept in: a UUID in lower case.

    ``strict`` allows nothing but UUIDs, else 1 to 64 of letters, digits, ``_`` and ``-`` are fine too.
    ``where`` names the field in the error. Raises InvalidInput.
    """
    if _UUID.fullmatch(value):
        return value.lower()
    if strict:
        raise InvalidInput(f"{where}: must be a UUID, got {show(value)}")
    if not _WIDE.fullmatch(value):
        raise InvalidInput(f"{where}: must be 1 to 64 of letters, digits, _ and -, got {show(value)}")
    return value


def check_uuid(value: str, *, where: str) -> str:
    """A UUID in lower case. Raises InvalidInput."""
    return check_thread_id(value, strict=True, where=where)


def new_id() -> str:
    return str(uuid.uuid4())


def new_message_id() -> str:
    """Says when it was made, as the ids of models' answers do."""
    return str(uuid7())


def made_at(message_id: str | None) -> datetime | None:
    """When a message was made, if its id tells (a UUID of version 7, whatever stands around it)."""
    found = _TIMED.search(message_id or "")
    return _EPOCH + timedelta(milliseconds=int(found[1] + found[2], 16)) if found else None
