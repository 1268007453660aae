"""Short names of messages: what summaries cite and what a message can be looked up by."""

from __future__ import annotations

import hashlib
import re

_DIGITS = 10
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,15}")


def reference_of(message_id: str) -> str:
    """The reference of the message with this id: the id where it is short and plain, else ten hex digits made of it.

    Ids of models and clients are long, may hold anything and often begin alike; of 50,000 of them, two share their
    digits in one thread of a thousand.
    """
    if _SHORT.fullmatch(message_id):
        return message_id
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
