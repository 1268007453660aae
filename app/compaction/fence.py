"""Fences: the tags that part our words from untrusted text inside a prompt (rule D2).

Only the tags our own prompts use are neutralised, and only by exchanging the opening bracket for a
look-alike of the same length. Everything else, ``&`` and other markup included, comes back unchanged,
so nothing can be escaped twice.
"""

from __future__ import annotations

import re

EXISTING_SUMMARY = "existing_summary"
NEW_MESSAGES = "new_messages"
DURABLE_CONTEXT = "durable_context_data"
OPENING = "conversation_opening"
USER_MEMORY = "user_memory"
KNOWN_FACTS = "known_facts"
MEMORY_TRANSCRIPT = "memory_transcript"
EARLIER_MESSAGES = "earlier_messages"
FENCE_TAGS = (
    EXISTING_SUMMARY,
    NEW_MESSAGES,
    DURABLE_CONTEXT,
    OPENING,
    USER_MEMORY,
    KNOWN_FACTS,
    MEMORY_TRANSCRIPT,
    EARLIER_MESSAGES,
)

_NEUTRAL_BRACKET = "‹"
_BRACKETS = "<＜﹤"
_INVISIBLE = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_BEFORE_NAME = rf"[\s/／\\{_INVISIBLE}]*"
_FULL_WIDTH_OFFSET = 0xFEE0


def _letter(char: str) -> str:
    return f"[{char}{chr(ord(char) + _FULL_WIDTH_OFFSET)}]"


def _name(tag: str) -> str:
    return f"[{_INVISIBLE}]*".join(_letter(char) for char in tag)


# An unfinished tag counts as well: what follows it in the prompt could finish it.
_FENCE = re.compile(
    rf"[{_BRACKETS}](?={_BEFORE_NAME}(?:{'|'.join(map(_name, FENCE_TAGS))})(?![{_INVISIBLE}]*[\w\-.:]))",
    re.IGNORECASE,
)


def neutralise(text: str) -> str:
    """``text`` with every fence tag in it made harmless: ``</new_messages>`` → ``‹/new_messages>``.

    Case, spaces, attributes, invisible characters and full-width forms do not hide a tag. Idempotent,
    keeps the length, linear in the length of ``text``. Source: rule D2.
    """
    return _FENCE.sub(_NEUTRAL_BRACKET, text)


def fenced(tag: str, body: str) -> str:
    """``body`` between an opening and a closing ``tag``, with all fences inside neutralised (rule D2)."""
    return f"<{tag}>\n{neutralise(body)}\n</{tag}>"
