"""Ids that clients may choose: which are allowed, in which form they are kept."""

from __future__ import annotations

import re
import uuid

from app.errors import InvalidInput
from app.serialization import show

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
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
